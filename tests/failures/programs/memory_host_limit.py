"""The address space is limited, and a matrix does not fit into it."""
# run: ulimit -v 8000000; python memory_host_limit.py
# cause: mem.host_cpu_alloc
# fix-says: smaller
# fix-edits: torch.empty

import torch


def cache(size):
    return torch.empty(size, 4096)  # fails here


print(cache(1 << 20).numel())  # broken
# fixed: print(cache(1 << 10).numel())  # smaller torch.empty
