"""Gradients that meet: real ones are added in place where nothing else needs the first, fakes never are.

torch/csrc/autograd/input_buffer.cpp, `accumulate` and `can_accumulate_inplace` (torch 1.13 to 2.13): in place unless
the tensor is a subclass, as fakes are. Without this each gradient of a residual stream or of a split projection
would cost one tensor more at its peak.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

_ENGINE = "_engine_run_backward"


@dataclass(slots=True)
class Accumulation:
    """Tells sums of the engine that a real run makes in place."""

    _fewest: int = 99
    """references to a tensor that only the engine holds, while Python looks at it: the fewest ever seen"""

    def in_place(self, name: str, args: Sequence[object], depth: int) -> torch.Tensor | None:
        """The first gradient, if it takes the second in; `depth`: of the frame from which torch was called."""
        if name != "aten::add" or len(args) != 2 or torch.is_grad_enabled():
            return None
        first, second = args
        if not isinstance(first, torch.Tensor) or not isinstance(second, torch.Tensor):
            return None
        if sys._getframe(depth).f_code.co_name != _ENGINE or first.shape != second.shape or first.dtype != second.dtype:
            return None
        held = first._use_count()
        self._fewest = min(self._fewest, held, second._use_count())
        storage = first.untyped_storage()  # this handle is one of its references
        is_alone = held == self._fewest and torch._C._storage_Use_Count(storage._cdata) == 2
        return first if is_alone and _fills(first, storage.nbytes()) else None


def _fills(tensor: torch.Tensor, size: int) -> bool:
    """Whether each byte of its storage stands for one value of the tensor (ATen: non-overlapping and dense)."""
    spread = any(stride == 0 and count > 1 for stride, count in zip(tensor.stride(), tensor.shape, strict=True))
    return not spread and tensor.numel() * tensor.element_size() == size
