"""The volume of the checkpoint is full."""
# run: python disk_full.py
# cause: io.disk_full
# fix-says: another volume
# fix-edits: path

import json

path = "/dev/full"  # broken
# fixed: path = "metrics.json"
with open(path, "w") as file:
    json.dump({"loss": 1.0}, file)
    file.flush()  # fails here
