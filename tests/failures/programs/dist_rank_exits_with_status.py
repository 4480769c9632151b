"""One rank ends with a status and without a word."""
# run: torchrun --standalone --nproc-per-node 3 dist_rank_exits_with_status.py
# cause: proc.exit_no_trace
# rank: 2
# collateral: 0 1
# missing: why rank 2 exited

import os

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
for step in range(3):
    if step == 1 and dist.get_rank() == 2:
        os._exit(3)
    dist.all_reduce(torch.ones(4))
