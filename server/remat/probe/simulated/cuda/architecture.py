"""What a GPU's generation decides: which attention kernels it has and how large cuBLAS's workspace is."""

from __future__ import annotations

import re
from typing import TypeAlias

Capability: TypeAlias = "tuple[int, int]"

AMD: Capability = (0, 0)
"""torch for ROCm gives its BLAS library no workspace from the allocator (torch 2.2 and 2.3, published runs on MI200)"""
UNKNOWN: Capability = (8, 0)
"""taken where the GPU is not named: from Ampere on there is flash attention; before Hopper the workspace is small"""

_GENERATIONS: tuple[tuple[str, Capability], ...] = (
    # https://developer.nvidia.com/cuda-gpus
    ("p100", (6, 0)), ("1080", (6, 1)), ("titan v", (7, 0)), ("v100", (7, 0)), ("t4", (7, 5)), ("2080", (7, 5)),
    ("a100", (8, 0)), ("a800", (8, 0)), ("a30", (8, 0)), ("a10", (8, 6)), ("a40", (8, 6)), ("a6000", (8, 6)),
    ("a5000", (8, 6)), ("a4000", (8, 6)), ("30[0-9]0", (8, 6)), ("l4", (8, 9)), ("l40", (8, 9)), ("40[0-9]0", (8, 9)),
    ("6000 ada", (8, 9)), ("h100", (9, 0)), ("h200", (9, 0)), ("h20", (9, 0)), ("h800", (9, 0)), ("gh200", (9, 0)),
    ("b200", (10, 0)), ("gb200", (10, 0)), ("50[0-9]0", (12, 0)),
)  # fmt: skip

_MIB = 2**20


def capability(gpu: str | None) -> Capability:
    """The compute capability of a GPU by its name; `UNKNOWN` for other names and for None."""
    return _told(gpu) or UNKNOWN


def is_known(gpu: str | None) -> bool:
    return _told(gpu) is not None


def _told(gpu: str | None) -> Capability | None:
    name = (gpu or "").lower()
    if re.search(r"(?<![a-z])(amd|mi[23]\d\d)", name):
        return AMD
    found = [generation for word, generation in _GENERATIONS if re.search(rf"(?<![a-z0-9]){word}(?![0-9])", name)]
    return found[-1] if found else None


def workspace_bytes(generation: Capability) -> int:
    """CuBLAS's workspace, which torch takes from its allocator once for each thread that multiplies matrices.

    ATen/cuda/CublasHandlePool.cpp, `parseChosenWorkspaceSize` (torch 1.11 to 2.13): `:4096:2:16:8` is 8.125 MiB, and
    from compute capability 9.0 on 32 MiB.
    """
    if generation == AMD:
        return 0
    return 32 * _MIB if generation >= (9, 0) else (4096 * 2 + 16 * 8) * 1024
