"""A checkpointed block pads every second call, and the recomputation is one call more."""
# run: python checkpoint_call_counter.py
# cause: ckpt.metadata_mismatch
# fix-says: counter
# fix-edits: calls

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    calls = 0

    def forward(self, x):
        self.calls += 1  # broken
        # fixed: pass
        if self.calls % 2:
            x = torch.nn.functional.pad(x, (0, 0, 0, 2))
        return x.exp()


x = torch.randn(3, 4, requires_grad=True)
loss = checkpoint(Block(), x, use_reentrant=False).sum()
loss.backward()  # fails here
