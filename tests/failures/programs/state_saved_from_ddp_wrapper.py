"""The state was saved from the wrapped model, so that every key starts with `module.`."""
# run: python state_saved_from_ddp_wrapper.py
# cause: state.key_prefix
# says: module.
# fix-says: strip the prefix `module.`
# fix-edits: removeprefix("module.")

import torch
from torch import nn


def build():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


torch.save(nn.DataParallel(build()).state_dict(), "model.pt")
state = torch.load("model.pt")
# fixed: state = {key.removeprefix("module."): value for key, value in state.items()}
build().load_state_dict(state)  # fails here
