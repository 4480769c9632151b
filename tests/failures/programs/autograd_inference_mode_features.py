"""Features computed under inference_mode are given to a layer that is trained."""
# run: python autograd_inference_mode_features.py
# cause: autograd.inference_tensor
# fix-says: torch.no_grad()

import torch

encoder, head = torch.nn.Linear(8, 8), torch.nn.Linear(8, 2)


def step(x):
    # fixed: with torch.no_grad():
    with torch.inference_mode():  # broken
        features = encoder(x)
    loss = head(features).square().mean()  # fails here
    loss.backward()


step(torch.randn(3, 8))
