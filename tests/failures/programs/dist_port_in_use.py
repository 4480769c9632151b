"""The port that was chosen is taken by another process."""
# run: python dist_port_in_use.py
# cause: dist.port_in_use
# fix-says: MASTER_PORT

import os
import socket

import torch.distributed as dist

taken = socket.socket(socket.AF_INET6)
taken.bind(("::", 0))
taken.listen()
os.environ.update(MASTER_ADDR="localhost", RANK="0", WORLD_SIZE="1")
os.environ["MASTER_PORT"] = str(taken.getsockname()[1])  # broken
# fixed: os.environ["MASTER_PORT"] = "0"
dist.init_process_group("gloo")  # fails here
dist.destroy_process_group()
