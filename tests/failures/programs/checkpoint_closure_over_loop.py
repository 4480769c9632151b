"""A lambda given to checkpoint captures the loop's layer: recomputation runs the last layer for all."""
# run: python checkpoint_closure_over_loop.py
# cause: ckpt.metadata_mismatch
# cut: shape.matmul
# fix-rule: closure-captures-loop-variable

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        sizes = (8, 16, 12, 4)
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))

    def forward(self, x):
        for layer in self.layers:
            x = checkpoint(lambda y: torch.sigmoid(layer(y)), x, use_reentrant=False)  # fails here
        return x


model = Model()
loss = model(torch.randn(2, 8)).sum()
loss.backward()
