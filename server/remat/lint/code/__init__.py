"""A file as rules see it: pieces, trees, names, spans and definitions."""
