"""A bfloat16 model is given float32 inputs, without autocast."""
# run: python dtype_bfloat16_model.py
# cause: dtype.mismatch
# fix-says: torch.autocast

import contextlib

import torch

model = torch.nn.Linear(4, 2).bfloat16()
context = contextlib.nullcontext()  # broken
# fixed: context = torch.autocast("cpu", dtype=torch.bfloat16)
with context:
    print(model(torch.randn(2, 4)).dtype)  # fails here
