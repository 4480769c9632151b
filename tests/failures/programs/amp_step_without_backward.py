"""The scaler's step comes before any backward: the loss was never scaled."""
# run: python amp_step_without_backward.py
# cause: prec.no_inf_checks
# fix-says: scaler.scale(loss).backward()

import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
loss = model(torch.randn(2, 4)).mean()
# fixed: scaler.scale(loss).backward()
scaler.step(optimizer)  # fails here
scaler.update()
