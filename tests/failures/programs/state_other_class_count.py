"""A checkpoint of ten classes is loaded into a model of three."""
# run: python state_other_class_count.py
# cause: state.size_mismatch
# fix-says: the checkpoint's config
# fix-edits: config

import torch
from torch import nn


def build(config):
    return nn.ModuleDict({"body": nn.Linear(4, 8), "head": nn.Linear(8, config["classes"])})


config = {"classes": 10}
torch.save({"config": config, "model": build(config).state_dict()}, "ten.pt")

saved = torch.load("ten.pt")
config = {"classes": 3}  # broken
# fixed: config = saved["config"]
build(config).load_state_dict(saved["model"])  # fails here
