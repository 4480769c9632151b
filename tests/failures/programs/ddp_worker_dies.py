"""On one rank a DataLoader worker is killed; the other rank waits for it in backward."""
# run: torchrun --standalone --nproc-per-node 2 ddp_worker_dies.py
# cause: data.worker_killed
# rank: 1
# collateral: 0
# location: any
# missing: who killed worker

import os
import signal

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset


class Data(Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, at):
        if at == 9 and os.environ["RANK"] == "1":
            os.kill(os.getpid(), signal.SIGKILL)
        return torch.randn(4)


def main():
    dist.init_process_group("gloo")
    model = DistributedDataParallel(nn.Linear(4, 1))
    for batch in DataLoader(Data(), batch_size=2, num_workers=1):
        model(batch).mean().backward()
    dist.destroy_process_group()


main()
