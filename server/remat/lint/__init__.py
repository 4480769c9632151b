"""The linter: one text in, findings out. No input or output, no editor, no torch."""
