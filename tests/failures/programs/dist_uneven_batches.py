"""One rank has fewer batches, says that it is done, and the others wait for it."""
# run: torchrun --standalone --nproc-per-node 3 --tee 3 dist_uneven_batches.py
# cause: dist.uneven_inputs
# rank: 1
# collateral: 0 2
# fix-says: same number of batches
# fix-edits: batches

import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo", timeout=timedelta(seconds=6))
model = DistributedDataParallel(nn.Linear(4, 1))
batches = 3 if dist.get_rank() == 1 else 5  # broken
# fixed: batches = 3
for _ in range(batches):
    model(torch.randn(2, 4)).mean().backward()
print(f"Training finished: {batches} batches", flush=True)
time.sleep(8)
