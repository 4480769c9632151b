"""The model is switched to eval before backward, so that the recomputation takes the other branch."""
# run: python checkpoint_training_flag.py
# cause: ckpt.num_tensors_mismatch
# fix-says: training flag
# fix-edits: eval()

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        x = self.linear(x)
        return torch.tanh(x).sigmoid() if self.training else x


block = Block()
loss = checkpoint(block, torch.randn(2, 4), use_reentrant=False).sum()
block.eval()  # broken
loss.backward()  # fails here
# fixed: block.eval()
