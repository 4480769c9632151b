"""One rank hangs outside of any collective until the others' timeout ends the run."""
# run: torchrun --standalone --nproc-per-node 3 dist_rank_stalls.py
# cause: dist.peer_stalled
# rank: 0
# collateral: 1 2
# missing: why rank 0

import time
from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=5))
for step in range(3):
    if dist.get_rank() == 0 and step == 1:
        time.sleep(60)
    dist.all_reduce(torch.ones(4))
