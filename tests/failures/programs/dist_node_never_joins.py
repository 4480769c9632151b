"""Two processes are expected and one is started."""
# run: RANK=0 WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=29431 python dist_node_never_joins.py
# fixed-run: torchrun --standalone --nproc-per-node 2 dist_node_never_joins.py
# cause: dist.store_timeout
# missing: 1/2 clients joined
# fix-says: Start every node
# fix-edits: --nproc-per-node 2

from datetime import timedelta

import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=8))  # fails here
dist.barrier()
dist.destroy_process_group()
