"""A failed run on this machine: the code its log names, the files it left, and the findings that explain it."""
