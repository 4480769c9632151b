"""One rank builds one layer more than the other."""
# run: torchrun --standalone --nproc-per-node 2 ddp_models_differ.py
# cause: ddp.param_mismatch
# missing: which parameter count
# fix-says: same config
# fix-edits: config

import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
config = {"layers": 2 + dist.get_rank()}  # broken
# fixed: config = {"layers": 2}
model = nn.Sequential(*[nn.Linear(4, 4) for _ in range(config["layers"])])
DistributedDataParallel(model)  # fails here
dist.destroy_process_group()
