"""The first attempt fails with its group made; the second cannot connect, which is a consequence."""
# run: torchrun --standalone --nproc-per-node 2 --max-restarts 1 dist_restart_cannot_connect.py
# cause: code.user_exception
# says: OSError

import os

import torch.distributed as dist

dist.init_process_group("gloo")
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    raise OSError("a file system that is not there yet")  # fails here
print("Training finished")
dist.destroy_process_group()
