"""One rank dereferences a null pointer in native code."""
# run: torchrun --standalone --nproc-per-node 3 ddp_rank_segfaults.py
# cause: proc.segfault
# rank: 1
# collateral: 0 2
# missing: stack

import ctypes

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
for step in range(3):
    if step == 1 and dist.get_rank() == 1:
        ctypes.string_at(0)
    dist.all_reduce(torch.ones(4))
dist.destroy_process_group()
