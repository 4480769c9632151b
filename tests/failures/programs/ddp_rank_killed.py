"""One of four ranks is killed from outside and says nothing; the others lose it in an all_reduce."""
# run: torchrun --standalone --nproc-per-node 4 ddp_rank_killed.py
# cause: proc.sigkill_unknown
# rank: 2
# collateral: 0 1 3
# missing: who

import os
import signal

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
for step in range(3):
    if step == 1 and dist.get_rank() == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(torch.ones(4))
dist.destroy_process_group()
