"""static_graph=True was promised, and another branch is taken from the second step on."""
# run: torchrun --standalone --nproc-per-node 2 ddp_static_graph_changes.py
# cause: ddp.static_graph_changed
# fix-says: find_unused_parameters=True

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x, step):
        return (self.one(x) if step % 2 else self.two(self.one(x))).mean()


dist.init_process_group("gloo")
model = DistributedDataParallel(Model(), static_graph=True)  # broken
# fixed: model = DistributedDataParallel(Model(), find_unused_parameters=True)
for step in range(4):
    model(torch.randn(2, 4), step).backward()  # fails here
dist.destroy_process_group()
