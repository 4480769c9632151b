"""The model was converted to half, and the scaler wants float32 gradients."""
# run: python amp_half_parameters.py
# cause: prec.unscale_fp16
# fix-says: autocast

import torch

model = torch.nn.Linear(4, 1).half()  # broken
# fixed: model = torch.nn.Linear(4, 1)  # autocast makes the halves
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
with torch.autocast("cpu", dtype=torch.float16):
    loss = model(torch.randn(2, 4)).float().mean()
scaler.scale(loss).backward()
scaler.unscale_(optimizer)  # fails here
scaler.step(optimizer)
