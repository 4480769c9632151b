"""The optimizer is built from the trainable parameters, and there are none."""
# run: python config_everything_frozen.py
# cause: config.empty_optimizer
# fix-says: unfreeze
# fix-edits: requires_grad_(True)

import torch

model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1)).requires_grad_(False)
# fixed: model[1].requires_grad_(True)
trained = (parameter for parameter in model.parameters() if parameter.requires_grad)
optimizer = torch.optim.AdamW(trained, lr=1e-3)  # fails here
print(len(optimizer.param_groups))
