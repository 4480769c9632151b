"""A custom Function inside a checkpointed block reads its saved tensors twice in backward."""
# run: python checkpoint_saved_tensors_read_twice.py
# cause: ckpt.unpack_twice
# fix-says: saved_tensors

import torch
from torch.utils.checkpoint import checkpoint


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        (again,) = ctx.saved_tensors  # broken, fails here
        # fixed: again = x
        return gradient * (x + again)


x = torch.randn(3, requires_grad=True)
checkpoint(lambda y: Square.apply(y.sin()), x, use_reentrant=False).sum().backward()
