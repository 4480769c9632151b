"""The classifier was renamed after the checkpoint was written."""
# run: python state_renamed_layer.py
# cause: state.missing_unexpected_keys
# says: classifier
# fix-says: map the keys
# fix-edits: key.replace

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 4)
        self.classifier = nn.Linear(4, 2)


def restore(path):
    state = torch.load(path)
    # fixed: state = {key.replace("head.", "classifier."): value for key, value in state.items()}
    model = Model()
    model.load_state_dict(state)  # fails here
    return model


old = nn.ModuleDict({"body": nn.Linear(4, 4), "head": nn.Linear(4, 2)})
torch.save(old.state_dict(), "old.pt")
restore("old.pt")
