"""torch.save onto a full volume."""
# run: python disk_full_checkpoint.py
# cause: io.write_failed
# fix-says: save to another path
# fix-edits: path
# missing: why the write failed

import torch

path = "/dev/full"  # broken
# fixed: path = "model.pt"
torch.save({"weight": torch.randn(1024, 64)}, path)  # fails here
