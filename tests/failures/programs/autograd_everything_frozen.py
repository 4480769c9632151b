"""Freezing the backbone froze the head too: nothing is left for backward."""
# run: python autograd_everything_frozen.py
# cause: autograd.element0_no_grad
# missing: why the loss has no graph
# fix-says: unfreeze
# fix-edits: requires_grad_(True)

import torch

model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
for parameter in model.parameters():
    parameter.requires_grad = False
# fixed: model[2].requires_grad_(True)
loss = model(torch.randn(2, 4)).mean()
loss.backward()  # fails here
