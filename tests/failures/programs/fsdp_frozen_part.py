"""FSDP flattens a frozen and a trained parameter together."""
# run: torchrun --standalone --nproc-per-node 2 fsdp_frozen_part.py
# cause: fsdp.mixed_requires_grad
# fix-says: use_orig_params=True

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel

dist.init_process_group("gloo")
model = nn.Sequential(nn.Linear(4, 4).requires_grad_(False), nn.Linear(4, 1))
model = FullyShardedDataParallel(model, use_orig_params=False, device_id=torch.device("cpu"))  # broken, fails here
# fixed: model = FullyShardedDataParallel(model, use_orig_params=True, device_id=torch.device("cpu"))
model(torch.randn(2, 4)).mean().backward()
dist.destroy_process_group()
