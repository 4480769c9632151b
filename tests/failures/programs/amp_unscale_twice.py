"""Gradients are unscaled once for clipping and once for logging."""
# run: python amp_unscale_twice.py
# cause: prec.unscale_twice
# fix-says: Call unscale_ once
# fix-edits: scaler.unscale_(optimizer)

import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
scaler.scale(model(torch.randn(2, 4)).mean()).backward()
scaler.unscale_(optimizer)
torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
scaler.unscale_(optimizer)  # broken, fails here
scaler.step(optimizer)
scaler.update()
