"""As before without DETAIL: gloo's receiver aborts."""
# run: torchrun --standalone --nproc-per-node 2 dist_shapes_differ.py
# cause: dist.mismatched_collective
# missing: which rank
# says: expected 24 bytes and received 536
# fix-says: pad

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
features = torch.ones(3 + 64 * dist.get_rank(), 2)
# fixed: features = torch.nn.functional.pad(features, (0, 0, 0, 67 - len(features)))
dist.broadcast(features, src=1)
dist.destroy_process_group()
