"""A monitored barrier names the rank that does not come."""
# run: torchrun --standalone --nproc-per-node 3 dist_monitored_barrier.py
# cause: dist.peer_stalled
# rank: 2
# collateral: 0 1
# missing: why rank 2

import time
from datetime import timedelta

import torch.distributed as dist

dist.init_process_group("gloo")
if dist.get_rank() == 2:
    time.sleep(60)
dist.monitored_barrier(timeout=timedelta(seconds=4))
