"""The input size of a layer was computed for other images."""
# run: python shape_flattened_features.py
# cause: shape.matmul
# says: 2x128 and 200x10
# fix-says: nn.Linear(128, 10)

import torch
from torch import nn

model = nn.Sequential(
    nn.Conv2d(1, 8, 3, stride=2, padding=1),
    nn.Flatten(),
    nn.Linear(200, 10),  # broken
    # fixed: nn.Linear(128, 10),
)
print(model(torch.randn(2, 1, 8, 8)).shape)  # fails here
