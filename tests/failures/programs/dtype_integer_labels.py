"""binary_cross_entropy_with_logits is given integer labels."""
# run: python dtype_integer_labels.py
# cause: dtype.mismatch
# fix-says: Cast
# fix-edits: .float()

import torch

logits = torch.randn(4, requires_grad=True)
labels = torch.tensor([0, 1, 1, 0])
# fixed: labels = labels.float()
loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, labels)  # fails here
loss.backward()
