"""The checkpoint holds the command line's Namespace, which torch.load refuses by default."""
# run: python state_arguments_in_checkpoint.py
# cause: state.weights_only
# says: argparse.Namespace
# fix-says: add_safe_globals

import argparse

import torch

torch.save({"args": argparse.Namespace(lr=1e-3), "weight": torch.zeros(2)}, "run.pt")


def resume(path):
    # fixed: torch.serialization.add_safe_globals([argparse.Namespace])
    return torch.load(path)  # fails here


print(resume("run.pt")["weight"])
