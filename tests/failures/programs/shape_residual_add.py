"""A residual is added to a projection of another width."""
# run: python shape_residual_add.py
# cause: code.user_exception
# says: size of tensor a (4)
# fix-says: size of tensor
# fix-edits: nn.Linear(4, 4)

import torch
from torch import nn

project = nn.Linear(4, 6)  # broken
# fixed: project = nn.Linear(4, 4)
x = torch.randn(2, 4)
print((x + project(x)).shape)  # fails here
