"""Reading the text of a failed run: what began it, what followed, the fix, and what the text cannot say."""
