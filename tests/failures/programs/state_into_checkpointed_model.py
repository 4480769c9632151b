"""The model that loads is wrapped for activation checkpointing, the one that saved was not."""
# run: python state_into_checkpointed_model.py
# cause: state.key_prefix
# says: _checkpoint_wrapped_module.
# fix-says: _checkpoint_wrapped_module.
# fix-edits: checkpoint_wrapper

import torch
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing


class Wrapped(nn.Module):
    """What a project's own wrapper does: it registers the block under another name."""

    def __init__(self, block):
        super().__init__()
        self._checkpoint_wrapped_module = block

    def forward(self, x):
        return torch.utils.checkpoint.checkpoint(self._checkpoint_wrapped_module, x, use_reentrant=False)


def build():
    return nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))


torch.save(build().state_dict(), "plain.pt")
model = build()
model[0] = Wrapped(model[0])  # broken
# fixed: apply_activation_checkpointing(model, check_fn=lambda module: module is model[0])  # checkpoint_wrapper strips it
model.load_state_dict(torch.load("plain.pt"))  # fails here
