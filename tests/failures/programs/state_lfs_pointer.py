"""The checkpoint was cloned without git-lfs: the file is the pointer, not the weights."""
# run: python state_lfs_pointer.py
# cause: state.weights_only
# says: byte 118 (`v`)
# fix-says: git lfs pull

from pathlib import Path

import torch

Path("weights.pt").write_text(
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 548118077\n"
)
# fixed: torch.save(torch.nn.Linear(2, 2).state_dict(), "weights.pt")  # what `git lfs pull` does
state = torch.load("weights.pt")  # fails here
print(sorted(state))
