"""Only rank 0 calls a barrier after saving; DETAIL shows two ranks in different calls."""
# run: TORCH_DISTRIBUTED_DEBUG=DETAIL torchrun --standalone --nproc-per-node 2 dist_barrier_behind_rank_guard.py
# cause: dist.rank_divergence_undetermined
# location: any
# missing: which of ranks 0 and 1
# fix-says: on every rank
# fix-edits: barrier

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
for _ in range(2):
    dist.all_reduce(torch.ones(4))
    if dist.get_rank() == 0:
        torch.save({"step": 1}, "step.pt")
        dist.barrier()  # broken
    # fixed: dist.barrier()
dist.destroy_process_group()
