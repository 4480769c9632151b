"""mp.spawn: one of two processes raises, the other is ended by the parent."""
# run: python spawn_child_raises.py
# cause: code.user_exception
# rank: 1
# fix-says: division by zero
# fix-edits: 1 / (2 - rank)
# says: ZeroDivisionError

import time

import torch.multiprocessing as mp


def train(rank):
    time.sleep(rank)
    print("share", 1 / (1 - rank))  # broken, fails here
    # fixed: print("share", 1 / (2 - rank))
    time.sleep(4)


if __name__ == "__main__":
    mp.spawn(train, nprocs=2)
