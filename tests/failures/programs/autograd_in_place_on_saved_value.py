"""sigmoid's backward needs its result, and the result is multiplied in place."""
# run: python autograd_in_place_on_saved_value.py
# cause: autograd.inplace_version
# missing: modified the tensor of shape [4, 8]
# fix-says: mul_

import torch

layer = torch.nn.Linear(8, 8)


def forward(x):
    gate = torch.sigmoid(layer(x))
    gate.mul_(2)  # broken
    # fixed: gate = gate * 2
    return gate.sum()


def main():
    loss = forward(torch.randn(4, 8))
    loss.backward()  # fails here


main()
