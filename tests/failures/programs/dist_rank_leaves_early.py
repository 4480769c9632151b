"""One rank of three stops one step before the others, with status 0."""
# run: torchrun --standalone --nproc-per-node 3 dist_rank_leaves_early.py
# cause: dist.rank_divergent_control_flow
# rank: 1
# collateral: 0 2
# fix-says: same on every rank
# fix-edits: steps = 4

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
steps = 2 if dist.get_rank() == 1 else 4  # broken
# fixed: steps = 4
for _ in range(steps):
    dist.all_reduce(torch.ones(4))
dist.destroy_process_group()
