"""An initialisation writes into a parameter while gradients are recorded."""
# run: python autograd_in_place_on_parameter.py
# cause: autograd.inplace_leaf
# fix-says: torch.no_grad()

import torch

layer = torch.nn.Linear(4, 4)
# fixed: with torch.no_grad():
# fixed:     layer.weight.mul_(0.5)
layer.weight.mul_(0.5)  # broken, fails here
layer(torch.randn(2, 4)).sum().backward()
