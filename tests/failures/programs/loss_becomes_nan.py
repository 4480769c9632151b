"""The learning rate is far too high: the loss overflows, and a check ends the run."""
# run: python -u loss_becomes_nan.py
# cause: prec.nan_loss
# fix-says: learning rate
# fix-edits: lr=
# missing: which op first

import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=100.0)  # broken
# fixed: optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x, y = torch.randn(16, 4), torch.randn(16, 1)
for step in range(60):
    loss = (model(x) - y).square().mean()
    print(f"step {step} loss {loss.item():.4f}")
    if not torch.isfinite(loss):
        raise FloatingPointError("loss is not finite")  # fails here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
