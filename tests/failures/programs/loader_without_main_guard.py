"""Workers are spawned and import the script, which spawns workers."""
# run: python loader_without_main_guard.py
# cause: data.spawn_guard
# fix-says: __main__

import torch
from torch.utils.data import DataLoader, TensorDataset


def main():
    data = TensorDataset(torch.arange(4))
    for (batch,) in DataLoader(data, num_workers=1, multiprocessing_context="spawn"):  # fails here
        print(batch)


# fixed: if __name__ == "__main__":
# fixed:     main()
main()  # broken
