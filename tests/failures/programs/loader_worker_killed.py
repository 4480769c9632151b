"""A DataLoader worker is killed from outside, as the out-of-memory killer does."""
# run: python loader_worker_killed.py
# cause: data.worker_killed
# missing: who killed worker

import os
import signal

import torch
from torch.utils.data import DataLoader, Dataset


class Heavy(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, at):
        if at == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        return torch.zeros(2)


for batch in DataLoader(Heavy(), batch_size=2, num_workers=1):  # fails here
    print(batch.shape)
