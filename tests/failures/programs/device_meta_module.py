"""A module was built on the meta device and used before it had data."""
# run: python device_meta_module.py
# cause: device.meta_tensor
# fix-says: to_empty

import torch

with torch.device("meta"):
    model = torch.nn.Linear(4, 2)
# fixed: model.to_empty(device="cpu")
model = model.to("cpu")  # fails here
print(model(torch.ones(1, 4)).shape)
