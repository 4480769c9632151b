"""More steps are asked for than the loader has batches."""
# run: python user_iterator_exhausted.py
# cause: code.user_exception
# says: StopIteration
# fix-says: cycle

import itertools

import torch
from torch.utils.data import DataLoader

batches = iter(DataLoader(torch.arange(8), batch_size=4))  # broken
# fixed: batches = itertools.cycle(DataLoader(torch.arange(8), batch_size=4))
for step in range(3):
    print(step, next(batches))  # fails here
