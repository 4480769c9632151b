"""A branch on a tensor's value cannot be in one graph."""
# run: python compile_data_dependent_branch.py
# cause: compile.graph_break_fullgraph
# fix-says: drop fullgraph=True
# fix-edits: fullgraph=True

import torch


# fixed: @torch.compile(backend="eager")
@torch.compile(fullgraph=True, backend="eager")  # broken
def scale(x):
    if x.sum() > 0:  # fails here
        return x / x.sum()
    return x


print(scale(torch.ones(3)))
