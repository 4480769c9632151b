"""Every tensor that a worker sends keeps a file open, and the limit is low."""
# run: ulimit -n 64; python loader_file_descriptors.py
# cause: data.fd_limit
# fix-says: set_sharing_strategy('file_system')
# fix-edits: set_sharing_strategy("file_system")

import torch
from torch.utils.data import DataLoader, Dataset


class Many(Dataset):
    def __len__(self):
        return 200

    def __getitem__(self, at):
        return torch.zeros(4)


def main():
    # fixed: torch.multiprocessing.set_sharing_strategy("file_system")
    kept = list(DataLoader(Many(), num_workers=1))  # fails here
    print(len(kept))


main()
