"""A worker is ended by SIGBUS, as it is when /dev/shm is full."""
# run: python loader_bus_error.py
# cause: mem.shm_bus_error
# fix-says: num_workers

import os
import signal

import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info


class Images(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, at):
        if get_worker_info() is not None:
            os.kill(os.getpid(), signal.SIGBUS)
        return torch.zeros(2)


loader = DataLoader(Images(), batch_size=2, num_workers=2)  # broken
# fixed: loader = DataLoader(Images(), batch_size=2, num_workers=0)
for batch in loader:  # fails here
    print(batch.shape)
