"""The run that resumes trains the head only; the saved optimizer knew every parameter."""
# run: python state_optimizer_of_other_parameters.py
# cause: state.optimizer_group
# fix-says: same param groups
# fix-edits: parameters()

import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
torch.save(torch.optim.AdamW(model.parameters()).state_dict(), "optimizer.pt")

optimizer = torch.optim.AdamW(model[1].parameters())  # broken
# fixed: optimizer = torch.optim.AdamW(model.parameters())
optimizer.load_state_dict(torch.load("optimizer.pt"))  # fails here
