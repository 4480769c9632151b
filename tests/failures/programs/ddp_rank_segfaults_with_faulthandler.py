"""As before, and Python prints the stack of the rank that crashed."""
# run: PYTHONFAULTHANDLER=1 torchrun --standalone --nproc-per-node 3 ddp_rank_segfaults_with_faulthandler.py
# cause: proc.segfault
# rank: 1
# collateral: 0 2

import ctypes

import torch
import torch.distributed as dist


def native():
    return ctypes.string_at(0)  # fails here


dist.init_process_group("gloo")
for step in range(3):
    if step == 1 and dist.get_rank() == 1:
        native()
    dist.all_reduce(torch.ones(4))
dist.destroy_process_group()
