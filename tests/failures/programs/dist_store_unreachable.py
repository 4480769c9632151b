"""Rank 1 looks for a rank 0 that was never started."""
# run: RANK=1 WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=29432 python dist_store_unreachable.py
# fixed-run: torchrun --standalone --nproc-per-node 2 dist_store_unreachable.py
# cause: dist.store_unreachable
# missing: whether rank 0
# fix-says: Start rank 0 first
# fix-edits: --nproc-per-node 2

from datetime import timedelta

import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=5))  # fails here
dist.barrier()
dist.destroy_process_group()
