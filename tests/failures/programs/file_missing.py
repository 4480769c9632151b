"""A relative path is read from another working directory."""
# run: python file_missing.py
# cause: io.file_missing
# fix-says: correct the path
# fix-edits: __file__

from pathlib import Path

manifest = Path("data/manifest.txt")  # broken
# fixed: manifest = Path(__file__)  # paths relative to the script
print(len(manifest.read_text()))  # fails here
