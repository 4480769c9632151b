"""Nothing fails: checkpoint warns of its missing argument, and a scheduler is stepped before its optimizer."""
# run: python warnings_only.py
# cause: none

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
for step in range(2):
    scheduler.step()
    checkpoint(model, torch.randn(2, 4, requires_grad=True)).sum().backward()
    optimizer.step()
    print("step", step)
