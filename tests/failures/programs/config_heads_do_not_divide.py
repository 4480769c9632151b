"""The number of heads does not divide the width."""
# run: python config_heads_do_not_divide.py
# cause: config.value
# fix-says: divisible
# fix-edits: MultiheadAttention(64, 8)

import torch


def build():
    return torch.nn.MultiheadAttention(64, 7)  # broken, fails here
    # fixed: return torch.nn.MultiheadAttention(64, 8)


print(build().head_dim)
