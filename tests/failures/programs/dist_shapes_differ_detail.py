"""The last batch is smaller on one rank, and its features are gathered; DETAIL compares the shapes."""
# run: TORCH_DISTRIBUTED_DEBUG=DETAIL torchrun --standalone --nproc-per-node 2 dist_shapes_differ_detail.py
# cause: dist.mismatched_collective
# missing: which rank's shape
# fix-says: pad

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
features = torch.ones(3 + dist.get_rank(), 2)
# fixed: features = torch.nn.functional.pad(features, (0, 0, 0, 4 - len(features)))
gathered = [torch.empty_like(features) for _ in range(2)]
dist.all_gather(gathered, features)  # fails here
dist.destroy_process_group()
