"""Reentrant checkpointing cannot pass keyword arguments on to the block."""
# run: python checkpoint_keyword_to_reentrant.py
# cause: code.user_exception
# fix-rule: keyword-to-reentrant-checkpoint

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x, scale=None):
        x = self.linear(x)
        return x if scale is None else x * scale


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()

    def forward(self, x):
        return checkpoint(self.block, x, scale=0.5, use_reentrant=True)  # fails here


Model()(torch.randn(2, 8, requires_grad=True)).sum().backward()
