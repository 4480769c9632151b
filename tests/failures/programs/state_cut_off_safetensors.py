"""A safetensors file lost its end in a copy."""
# run: python state_cut_off_safetensors.py
# cause: state.corrupt_file
# fix-says: previous checkpoint
# fix-edits: previous

from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

save_file({"weight": torch.randn(64, 64)}, "previous.safetensors")
Path("model.safetensors").write_bytes(Path("previous.safetensors").read_bytes()[:-500])
file = "model.safetensors"  # broken
# fixed: file = "previous.safetensors"
print(load_file(file)["weight"].shape)  # fails here
