"""Stand-ins for values that only real data has: each is assumed, counted, and listed with its line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from remat.probe.simulated.detection import boxes_drawn
from remat.probe.simulated.few_values import FEW, constant
from remat.probe.simulated.turns import insisted_on, turns_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch._subclasses.fake_tensor import FakeTensor

    from remat.probe.simulated.turns import Turns

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
    what, out = _likely(func, args, error, line)
    note = Assumed(what, line)
    assumed[note] = assumed.get(note, 0) + 1
    return out


def _likely(
    func: torch._ops.OpOverload, args: Sequence[object], error: Exception, line: tuple[str, int] | None
) -> tuple[str, object]:
    tensor, turns = cast("torch.Tensor", args[0]), turns_at(line)
    if func is _aten.allclose.default:
        return "allclose() is taken to be true", True
    if func in {_aten._local_scalar_dense.default, _aten.equal.default}:
        value = _likely_value(torch.bool if func is _aten.equal.default else tensor.dtype, turns, line)
        return f"a value read from a tensor (.item(), bool(), int()) is taken to be {value!r}", value
    if func is _aten.nonzero.default:
        return _likely_rows(tensor, turns)
    if func is _aten.masked_select.default:
        rows, said = _share(tensor, turns)
        return f"masked_select() keeps {said}", tensor.new_empty((rows,))
    if func is _aten.index.Tensor:
        return _likely_index(func, tensor, cast("Sequence[torch.Tensor | None]", args[1]), turns)
    if func is _aten.bincount.default:
        return _likely_counts(tensor, args)
    if func is _aten._unique2.default:
        return _likely_differing(tensor)
    return _likely_of_few(func, tensor, args, error)


def _likely_of_few(
    func: torch._ops.OpOverload, tensor: torch.Tensor, args: Sequence[object], error: Exception
) -> tuple[str, object]:
    """The same of operators that few models call."""
    if func is _aten._ctc_loss.Tensor:
        return _likely_ctc(tensor, cast("torch.Tensor", args[1]))
    if str(func) == "torchvision.nms.default":  # the library may not be there
        return f"nms() keeps all {tensor.shape[0]} boxes", tensor.new_empty((tensor.shape[0],), dtype=torch.int64)
    if func is _aten.linalg_lstsq.default:
        return _likely_solution(tensor, cast("torch.Tensor", args[1]))
    raise error


def _likely_differing(tensor: torch.Tensor) -> tuple[str, object]:
    inverse = tensor.new_empty(tensor.shape, dtype=torch.int64)
    counts = tensor.new_empty((tensor.numel(),), dtype=torch.int64)
    values = tensor.new_empty((tensor.numel(),))
    return f"all {tensor.numel()} values differ for unique()", (values, inverse, counts)


def _likely_ctc(scores: torch.Tensor, targets: torch.Tensor) -> tuple[str, object]:
    """The losses, and the table of samples, times and twice the longest target that its backward reads."""
    times, samples = scores.shape[0], scores.shape[1]
    longest = targets.shape[-1] if targets.dim() > 1 else max(1, targets.numel() // samples)
    table = scores.new_empty((samples, times, 2 * longest + 1))
    return f"all targets of ctc_loss are {longest} long", (scores.new_empty((samples,)), table)


def _likely_solution(left: torch.Tensor, right: torch.Tensor) -> tuple[str, object]:
    """Of least squares: the solution, the residuals that are left for full rank, the ranks and singular values."""
    batch = torch.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    solution = right.new_empty((*batch, left.shape[-1], right.shape[-1]))
    ranks = left.new_empty(batch, dtype=torch.int64)
    residuals, values = left.new_empty((0,)), left.new_empty((0,))
    return "least squares are taken to have a solution of full rank", (solution, residuals, ranks, values)


def _likely_index(
    func: torch._ops.OpOverload, tensor: torch.Tensor, indices: Sequence[torch.Tensor | None], turns: Turns | None
) -> tuple[str, object]:
    known: list[torch.Tensor | None] = []
    said = ""
    for index in indices:
        if index is None or index.dtype not in {torch.bool, torch.uint8}:
            known.append(index)
            continue
        rows, kept = _share(index, turns)
        said = f"a mask keeps {kept}"
        known += [index.new_empty((rows,), dtype=torch.int64) for _ in range(index.dim())]
    return said, func(tensor, known)


_kept: dict[int, tuple[StorageWeakRef, int]] = {}
"""by the storage of a mask: backward asks for as many rows as forward did, and no line tells it of the loop"""
_MOST_KEPT = 1024


def _share(mask: torch.Tensor, turns: Turns | None) -> tuple[int, str]:
    storage = mask.untyped_storage()
    before = _kept.get(storage._cdata)
    if turns is None and before is not None and not before[0].expired():
        rows = before[1]
    else:
        rows = max(1, mask.numel()) if turns is None else turns.share(mask)
    if turns is not None:
        if len(_kept) >= _MOST_KEPT:
            _kept.clear()
        _kept[storage._cdata] = StorageWeakRef(storage), rows
    return rows, f"{rows} of {mask.numel()}{'' if turns is None else f', {turns.said()}'}"


def _likely_value(dtype: torch.dtype, turns: Turns | None, line: tuple[str, int] | None) -> bool | float:
    """Zero and no; but what is asserted is so, and where a turn of a loop over experts asks for any, it has."""
    passes = insisted_on(line)
    if dtype == torch.bool and passes is not None:
        return passes
    works = None if turns is None else turns.worked_on()
    if dtype == torch.bool:
        return bool(works)
    return 0.0 if dtype.is_floating_point else int(works is not None)


def _likely_rows(mask: torch.Tensor, turns: Turns | None) -> tuple[str, object]:
    drawn = boxes_drawn(mask)
    if drawn is not None:
        said = f"of {mask.numel()} boxes {drawn} are drawn"
        return said, mask.new_empty((drawn, 1), dtype=torch.int64)
    rows, said = _share(mask, turns)
    if rows == mask.numel() <= FEW and mask.dim() == 1:
        return f"nonzero() finds {said}", _numbers(mask, rows)
    return f"nonzero() finds {said}", mask.new_empty((rows, mask.dim()), dtype=torch.int64)


def _numbers(like: torch.Tensor, count: int) -> torch.Tensor:
    """All rows of a mask, whose numbers are known then: they pick the experts that have samples."""
    with torch.utils._python_dispatch._disable_current_modes():
        numbers = torch.arange(count)[:, None]
    return constant(cast("FakeTensor", like).fake_mode, numbers)


def _likely_counts(values: torch.Tensor, args: Sequence[object]) -> tuple[str, object]:
    """Counts that are all the same, as values: what follows asks whether there are any."""
    weights = cast("torch.Tensor | None", args[1] if len(args) > 1 else None)
    bins = max(1, int(cast("int", args[2])) if len(args) > 2 else 1)
    each, more = divmod(values.numel(), bins)
    said = f"bincount() finds {each + (more > 0)} of each of {bins} values"
    if weights is not None or bins > FEW:
        dtype = torch.int64 if weights is None else weights.dtype if weights.is_floating_point() else torch.float64
        return said, values.new_empty((bins,), dtype=dtype)
    with torch.utils._python_dispatch._disable_current_modes():
        counts = torch.full((bins,), each)
        counts[:more] += 1
    return said, constant(cast("FakeTensor", values).fake_mode, counts)
