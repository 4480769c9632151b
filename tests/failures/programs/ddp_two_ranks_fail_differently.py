"""Two ranks fail by themselves, each in its own way: nothing tells which was first."""
# run: torchrun --standalone --nproc-per-node 3 ddp_two_ranks_fail_differently.py
# cause: ambiguous.concurrent_failures
# collateral: 0
# missing: failed first

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
dist.barrier()
if rank == 1:
    print({}["learning_rate"])
if rank == 2:
    print([0.1][rank])
dist.all_reduce(torch.ones(1))
dist.destroy_process_group()
