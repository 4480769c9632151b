"""Stand-ins for values that only real data has: each is assumed, counted, and listed with its line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException

if TYPE_CHECKING:
    from collections.abc import Sequence

Unknowable = (DataDependentOutputException, DynamicOutputShapeException)

_aten = torch.ops.aten


@dataclass(frozen=True, slots=True)
class Assumed:
    """One thing taken for granted at one line."""

    what: str
    line: tuple[str, int] | None

    def __str__(self) -> str:
        return f"{self.line[0]}:{self.line[1]}: {self.what}" if self.line else self.what


def assume(
    func: torch._ops.OpOverload,
    args: Sequence[object],
    error: Exception,
    assumed: dict[Assumed, int],
    line: tuple[str, int] | None,
) -> object:
    """The result that `func` would have on likely data; raises `error` again for operators not known here."""
    what, out = _likely(func, args, error)
    note = Assumed(what, line)
    assumed[note] = assumed.get(note, 0) + 1
    return out


def _likely(func: torch._ops.OpOverload, args: Sequence[object], error: Exception) -> tuple[str, object]:
    tensor = cast("torch.Tensor", args[0])
    if func is _aten._local_scalar_dense.default:
        value = False if tensor.dtype == torch.bool else 0.0 if tensor.dtype.is_floating_point else 0
        return f"a value read from a tensor (.item(), bool(), int()) is taken to be {value!r}", value
    if func is _aten.nonzero.default:
        rows = _share(tensor)
        return f"nonzero() finds {rows} of {tensor.numel()}", tensor.new_empty((rows, tensor.dim()), dtype=torch.int64)
    if func is _aten.masked_select.default:
        rows = _share(tensor)
        return f"masked_select() keeps {rows} of {tensor.numel()}", tensor.new_empty((rows,))
    if func is _aten.index.Tensor:
        return _likely_index(func, tensor, cast("Sequence[torch.Tensor | None]", args[1]))
    if func is _aten._unique2.default:
        inverse = tensor.new_empty(tensor.shape, dtype=torch.int64)
        counts = tensor.new_empty((tensor.numel(),), dtype=torch.int64)
        return f"all {tensor.numel()} values differ for unique()", (
            tensor.new_empty((tensor.numel(),)),
            inverse,
            counts,
        )
    if func is _aten._ctc_loss.Tensor:
        return _likely_ctc(tensor, cast("torch.Tensor", args[1]))
    raise error


def _likely_ctc(scores: torch.Tensor, targets: torch.Tensor) -> tuple[str, object]:
    """The losses, and the table of samples, times and twice the longest target that its backward reads."""
    times, samples = scores.shape[0], scores.shape[1]
    longest = targets.shape[-1] if targets.dim() > 1 else max(1, targets.numel() // samples)
    table = scores.new_empty((samples, times, 2 * longest + 1))
    return f"all targets of ctc_loss are {longest} long", (scores.new_empty((samples,)), table)


def _likely_index(
    func: torch._ops.OpOverload, tensor: torch.Tensor, indices: Sequence[torch.Tensor | None]
) -> tuple[str, object]:
    known: list[torch.Tensor | None] = []
    said = ""
    for index in indices:
        if index is None or index.dtype not in {torch.bool, torch.uint8}:
            known.append(index)
            continue
        rows = _share(index)
        said = f"a mask keeps {rows} of {index.numel()}"
        known += [index.new_empty((rows,), dtype=torch.int64) for _ in range(index.dim())]
    return said, func(tensor, known)


def _share(mask: torch.Tensor) -> int:
    return max(1, mask.numel())
