"""A skip connection of an odd image does not have the size of what was sampled up."""
# run: python shape_concatenated_skip.py
# cause: shape.cat
# fix-says: slice
# fix-edits: [..., :7, :7]

import torch
from torch import nn

skip = torch.randn(1, 4, 7, 7)
up = nn.Upsample(scale_factor=2)(nn.Conv2d(4, 4, 3, stride=2, padding=1)(skip))
# fixed: up = up[..., :7, :7]
print(torch.cat([skip, up], dim=1).shape)  # fails here
