"""Two forwards before one backward: DistributedDataParallel broadcasts the buffer that backward needs in between."""
# run: torchrun --standalone --nproc-per-node 2 ddp_buffers_overwritten.py
# cause: autograd.inplace_version
# missing: which op modified
# fix-says: broadcast_buffers=False

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.ones(8))

    def forward(self, x):
        return x * self.scale


dist.init_process_group("gloo")
model = nn.Sequential(nn.Linear(4, 8), Scale())
model = DistributedDataParallel(model)  # broken
# fixed: model = DistributedDataParallel(model, broadcast_buffers=False)
loss = model(torch.randn(2, 4)).mean() + model(torch.randn(2, 4)).mean()
loss.backward()  # fails here
dist.destroy_process_group()
