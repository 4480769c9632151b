"""The forward of a training step runs under no_grad, a leftover of an evaluation."""
# run: python autograd_loss_without_graph.py
# cause: autograd.element0_no_grad
# missing: why the loss has no graph
# fix-says: no_grad

import torch

model = torch.nn.Linear(4, 1)


def train_step(x):
    # fixed: with torch.enable_grad():
    with torch.no_grad():  # broken
        loss = model(x).mean()
    loss.backward()  # fails here


train_step(torch.randn(2, 4))
