"""A frozen embedding feeds reentrant checkpointing: no input requires grad, so the graph is lost."""
# run: python checkpoint_reentrant_frozen_embedding.py
# cause: ckpt.no_input_requires_grad
# fix-rule: checkpoint-with-reentrant-true
# quick: yes

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(16, 8).requires_grad_(False)
        self.block = nn.Linear(8, 8)

    def forward(self, ids):
        x = self.embed(ids)
        return checkpoint(self.block, x, use_reentrant=True).square().mean()


model = Model()
loss = model(torch.arange(4))
loss.backward()  # fails here
print("block", model.block.weight.grad.norm().item())
