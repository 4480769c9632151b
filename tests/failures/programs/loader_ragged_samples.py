"""Sentences of different lengths cannot be stacked into one batch."""
# run: python loader_ragged_samples.py
# cause: data.collate_size
# fix-says: pad

import torch
from torch.utils.data import DataLoader

sentences = [torch.arange(n) for n in (3, 5, 4, 6)]
loader = DataLoader(sentences, batch_size=2)  # broken
# fixed: pad = torch.nn.utils.rnn.pad_sequence
# fixed: loader = DataLoader(sentences, batch_size=2, collate_fn=lambda batch: pad(batch, batch_first=True))
for batch in loader:  # fails here
    print(batch.shape)
