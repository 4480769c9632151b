"""A second head is built and not used in the loss."""
# run: torchrun --standalone --nproc-per-node 2 ddp_unused_parameters.py
# cause: ddp.unused_params
# fix-says: find_unused_parameters=True

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head, self.other = nn.Linear(4, 4), nn.Linear(4, 1), nn.Linear(4, 1)

    def forward(self, x):
        return self.head(self.body(x)).mean()


dist.init_process_group("gloo")
model = DistributedDataParallel(Model())  # broken
# fixed: model = DistributedDataParallel(Model(), find_unused_parameters=True)
for _ in range(3):
    model(torch.randn(2, 4)).backward()  # fails here
dist.destroy_process_group()
