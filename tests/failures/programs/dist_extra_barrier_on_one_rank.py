"""One of three ranks takes a branch with a barrier in it; DETAIL compares the calls."""
# run: TORCH_DISTRIBUTED_DEBUG=DETAIL torchrun --standalone --nproc-per-node 3 dist_extra_barrier_on_one_rank.py
# cause: dist.rank_divergent_control_flow
# rank: 2
# collateral: 0 1
# fix-says: broadcast

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
for step in range(4):
    spike = torch.tensor([float(rank == 2 and step == 2)])
    # fixed: dist.broadcast(spike, src=2)
    if spike.item():
        dist.barrier()  # fails here
    dist.all_reduce(torch.ones(4))
dist.destroy_process_group()
