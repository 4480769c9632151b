"""mp.spawn: one of two processes is killed."""
# run: python spawn_child_killed.py
# cause: proc.sigkill_unknown
# rank: 1
# missing: who

import os
import signal
import time

import torch.multiprocessing as mp


def train(rank):
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(8)


if __name__ == "__main__":
    mp.spawn(train, nprocs=2)
