"""The gradient of sqrt at zero is infinite, times zero it is nan; anomaly mode says so."""
# run: python autograd_nan_in_sqrt.py
# cause: autograd.anomaly_nan
# fix-says: clamp
# says: SqrtBackward0

import torch

torch.autograd.set_detect_anomaly(True)


def distance(a, b):
    squared = (a - b).square().sum(-1)
    return squared.sqrt()  # broken
    # fixed: return squared.clamp(min=1e-12).sqrt()


a = torch.zeros(2, 3, requires_grad=True)
loss = (distance(a, torch.zeros(2, 3)) * torch.zeros(2)).sum()
loss.backward()  # fails here
print("gradient", a.grad.sum().item())
