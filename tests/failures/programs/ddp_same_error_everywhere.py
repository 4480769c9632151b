"""Every rank looks for the data where only the login node has it."""
# run: torchrun --standalone --nproc-per-node 2 ddp_same_error_everywhere.py
# cause: io.file_missing
# fix-says: path
# fix-edits: path

from pathlib import Path

import torch.distributed as dist

dist.init_process_group("gloo")
path = Path("/data/of/the/login/node/train.bin")  # broken
# fixed: path = Path(__file__)
print(len(path.read_bytes()))  # fails here
dist.barrier()
dist.destroy_process_group()
