"""One block is checkpointed twice with the reentrant variant under DistributedDataParallel."""
# run: torchrun --standalone --nproc-per-node 2 ddp_reentrant_checkpoint_marks_twice.py
# cause: ddp.mark_ready_twice
# fix-rule: checkpoint-with-reentrant-true

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.shared = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        x = self.stem(x)
        x = checkpoint(self.shared, x, use_reentrant=True)
        return checkpoint(self.shared, x, use_reentrant=True).mean()


dist.init_process_group("gloo")
model = DistributedDataParallel(Model())
for _ in range(2):
    model(torch.randn(2, 4)).backward()  # fails here
dist.destroy_process_group()
