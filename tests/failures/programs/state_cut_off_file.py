"""The last checkpoint was cut off when the disk filled up; the one before it is whole."""
# run: python state_cut_off_file.py
# cause: state.corrupt_file
# fix-says: previous checkpoint
# fix-edits: step_100.pt

from pathlib import Path

import torch

for step in (100, 200):
    torch.save({"weight": torch.randn(64, 64)}, f"step_{step}.pt")
whole = Path("step_200.pt").read_bytes()
Path("step_200.pt").write_bytes(whole[: len(whole) // 2])

path = "step_200.pt"  # broken
# fixed: path = "step_100.pt"
print(torch.load(path)["weight"].shape)  # fails here
