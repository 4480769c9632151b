"""A gradient penalty asks torch.autograd.grad to go through reentrant checkpointing."""
# run: python checkpoint_reentrant_with_autograd_grad.py
# cause: ckpt.reentrant_grad_inputs
# fix-rule: checkpoint-with-reentrant-true

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.Tanh())
        self.head = nn.Linear(8, 1)

    def forward(self, x):
        return self.head(checkpoint(self.body, x, use_reentrant=True))


def penalty(critic, x):
    score = critic(x)
    (gradient,) = torch.autograd.grad(score.sum(), x)  # fails here
    return (gradient.norm(dim=-1) - 1).square().mean()


critic = Critic()
print("penalty", penalty(critic, torch.randn(3, 4, requires_grad=True)).item())
