"""A lambda in the dataset cannot be sent to workers that are spawned."""
# run: python loader_lambda_with_spawn.py
# cause: data.pickle
# says: lambda
# fix-says: module level
# fix-edits: def

import torch
from torch.utils.data import DataLoader, Dataset

# fixed: def scale(x):
# fixed:     return x / 255


class Images(Dataset):
    def __init__(self, transform):
        self.transform = transform

    def __len__(self):
        return 4

    def __getitem__(self, at):
        return self.transform(torch.full((3,), float(at)))


def main():
    images = Images(lambda x: x / 255)  # broken
    # fixed: images = Images(scale)
    loader = DataLoader(images, num_workers=1, multiprocessing_context="spawn")
    for batch in loader:  # fails here
        print(batch)


if __name__ == "__main__":
    main()
