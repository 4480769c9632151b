"""A value is read out of a tensor to be printed, inside a function that must be one graph."""
# run: python compile_item_in_graph.py
# cause: compile.graph_break_fullgraph
# fix-says: drop fullgraph=True
# fix-edits: fullgraph=True

import torch


# fixed: @torch.compile(backend="eager")
@torch.compile(fullgraph=True, backend="eager")  # broken
def step(x):
    y = (x * 2).sum()
    print("loss", y.item())  # fails here
    return y


step(torch.ones(3))
