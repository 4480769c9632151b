"""One record has a field that the dataset does not expect; a worker meets it."""
# run: python loader_worker_raises.py
# cause: data.worker_exception
# says: KeyError
# fix-says: __getitem__
# fix-edits: get("text", "")

import torch
from torch.utils.data import DataLoader, Dataset

ROWS = [{"text": "a b"}, {"text": "c"}, {"body": "d"}, {"text": "e"}]


class Rows(Dataset):
    def __len__(self):
        return len(ROWS)

    def __getitem__(self, at):
        words = ROWS[at]["text"].split()  # broken, fails here
        # fixed: words = ROWS[at].get("text", "").split()
        return torch.tensor(len(words))


for batch in DataLoader(Rows(), batch_size=2, num_workers=2):
    print(batch)
