"""A recurrent net carries its hidden state, and with it the last step's graph, into the next step."""
# run: python autograd_hidden_state_kept.py
# cause: autograd.backward_twice
# fix-says: detach
# quick: yes

import torch

cell = torch.nn.GRUCell(4, 8)
hidden = torch.zeros(2, 8)
for _ in range(3):
    hidden = cell(torch.randn(2, 4), hidden)
    hidden.sum().backward()  # fails here
    # fixed: hidden = hidden.detach()
