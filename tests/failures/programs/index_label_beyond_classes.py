"""Labels count from 1, classes from 0."""
# run: python index_label_beyond_classes.py
# cause: index.target
# fix-says: Correct the labels
# fix-edits: labels

import torch

labels = torch.tensor([1, 2, 3])  # broken
# fixed: labels = torch.tensor([0, 1, 2])
loss = torch.nn.functional.cross_entropy(torch.randn(3, 3), labels)  # fails here
print(loss.item())
