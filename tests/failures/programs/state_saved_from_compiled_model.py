"""torch.compile's wrapper puts `_orig_mod.` before every key that is saved."""
# run: python state_saved_from_compiled_model.py
# cause: state.key_prefix
# says: _orig_mod.
# fix-says: strip the prefix `_orig_mod.`
# fix-edits: removeprefix("_orig_mod.")

import torch
from torch import nn

compiled = torch.compile(nn.Linear(4, 2))
torch.save({"model": compiled.state_dict(), "step": 7}, "last.pt")

model = nn.Linear(4, 2)
saved = torch.load("last.pt")["model"]
# fixed: saved = {key.removeprefix("_orig_mod."): value for key, value in saved.items()}
model.load_state_dict(saved)  # fails here
