"""What a convolution takes on this CPU, found by running it: on zeros, on as few samples and rows as tell.

oneDNN has a dozen ways to convolve. Which one it takes, in which layouts and with what scratchpad, depends on shapes,
instructions, caches and threads, and it tells nobody before it runs. What it allocates grows evenly with both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate, product
from typing import TYPE_CHECKING, TypeAlias, cast

import torch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from remat.probe.target.calls import Callee

_MUCH_WORK = 5e8
"""multiplications for each thread, some 20 milliseconds: what takes more is tried on fewer rows, too"""
_MOST_WORK = 3e10
"""that one operator may take to try; what takes more is left to the rules"""
_MOST_WORK_IN_ALL = 2e11
_spent = 0.0
_known: dict[object, Tried | None] = {}
_SEVERAL_SAMPLES = 16
"""from here on torch gives a convolution to oneDNN even where there is one thread (Convolution.cpp, `use_mkldnn`)"""
_FEW_ROWS = 8

Point: TypeAlias = "tuple[int, int]"
"""how many samples, and how many rows are left out"""


@dataclass(frozen=True, slots=True)
class Tried:
    """Bytes allocated, or freed where negative, one after the other: for few samples and for more, on few rows and on
    more.
    """

    samples: tuple[int, int]
    left_out: tuple[int, int]
    sizes: Mapping[Point, tuple[int, ...]]


def peak(func: Callee[object], args: Sequence[object], steps: Sequence[int], work: float) -> int | None:
    """The most bytes that `func` holds at once, its results included; None where it is too large to try, or fails.

    `steps`: of each of the first arguments, which are batches of samples, how many rows go with one row of that which
    has the fewest. `work`: how many multiplications it does.
    """
    count = cast("torch.Tensor", args[0]).shape[0]
    samples = _samples(count)
    if not _can_watch() or count == 0:
        return None
    threads = torch.get_num_threads()
    rows = min(cast("torch.Tensor", item).shape[2] // step for item, step in zip(args, steps, strict=False))
    work *= sum(samples) / count
    too_many = work > _MUCH_WORK * threads and rows > 2 * _FEW_ROWS
    left_out = (rows - _FEW_ROWS, rows - 2 * _FEW_ROWS) if too_many else (0, 0)
    key = (func, samples, left_out, *_likeness(args, len(steps)), threads, torch.backends.mkldnn.enabled)
    if key not in _known:
        share = sum(1 - one / rows for one in left_out) if too_many else 1.0
        _known[key] = _try(func, args, steps, (samples, left_out), work * share / threads)
    tried = _known[key]
    return None if tried is None else _most(tried, count)


def _samples(count: int) -> tuple[int, int]:
    """All of them, or two numbers that give each thread something to do."""
    threads = torch.get_num_threads()
    few = threads if threads > 1 else _SEVERAL_SAMPLES
    return (count, count) if count <= 2 * few else (few, 2 * few)


def _can_watch() -> bool:
    return hasattr(torch.autograd, "_enable_profiler_legacy")


def _likeness(args: Sequence[object], batched: int) -> list[object]:
    """What the kernels decide by, without the number of samples."""
    like: list[object] = []
    for number, item in enumerate(args):
        if isinstance(item, torch.Tensor):
            shape = tuple(item.shape[1:]) if number < batched else tuple(item.shape)
            like.append((shape, _order(item), item.stride()[1:], item.dtype))
        else:
            like.append(str(item))
    return like


def _order(tensor: torch.Tensor) -> tuple[int, ...]:
    """The dimensions from the one with the longest steps on."""
    return tuple(sorted(range(tensor.dim()), key=lambda dim: (-tensor.stride(dim), dim)))


def _try(
    func: Callee[object],
    args: Sequence[object],
    steps: Sequence[int],
    grid: tuple[tuple[int, int], tuple[int, int]],
    work: float,
) -> Tried | None:
    global _spent  # noqa: PLW0603 -- what a process may spend on this is a property of the process
    if work > _MOST_WORK or _spent + work > _MOST_WORK_IN_ALL:
        return None
    _spent += work
    try:
        with torch.utils._python_dispatch._disable_current_modes(), torch.no_grad():
            sizes = {point: _allocations(func, _real(args, steps, point)) for point in {*product(*grid)}}
    except RuntimeError:  # no memory, or a kernel that this CPU has not
        return None
    are_alike = len({tuple(size > 0 for size in one) for one in sizes.values()}) == 1
    return Tried(*grid, sizes) if are_alike else None


def _real(args: Sequence[object], steps: Sequence[int], point: Point) -> list[object]:
    samples, left_out = point
    tensors = [
        _zeros(cast("torch.Tensor", item), samples, left_out * step) for item, step in zip(args, steps, strict=False)
    ]
    others = args[len(steps) :]
    return [*tensors, *(_zeros(item) if isinstance(item, torch.Tensor) else item for item in others)]


def _zeros(like: torch.Tensor, samples: int | None = None, left_out: int = 0) -> torch.Tensor:
    """Laid out as `like` is, with so many samples, and rows left out."""
    shape, stride, order = list(like.shape), list(like.stride()), _order(like)
    if samples is not None:
        shape[0], shape[2] = samples, shape[2] - left_out
    is_cut_within = left_out or (shape[0] != like.shape[0] and order[0] != 0)
    if is_cut_within and like.numel() == _extent(like.shape, stride):
        step = 1
        for dim in reversed(order):
            stride[dim] = stride[dim] if shape[dim] == stride[dim] == 1 else step
            step *= shape[dim]
    return torch.zeros(_extent(shape, stride), dtype=like.dtype).as_strided(shape, stride)


def _extent(shape: Sequence[int], stride: Sequence[int]) -> int:
    """Values from the first to the last."""
    return 1 + sum((size - 1) * step for size, step in zip(shape, stride, strict=True)) if math.prod(shape) else 0


def _allocations(func: Callee[object], args: Sequence[object]) -> tuple[int, ...]:
    shapes, memory, others = False, True, (False, False, False)
    how = torch.autograd.ProfilerConfig(
        torch.autograd.ProfilerState.CPU, shapes, memory, *others, torch._C._profiler._ExperimentalConfig()
    )
    torch.autograd._enable_profiler_legacy(how)
    try:
        out = func(*args)
    finally:
        events = [event for thread in torch.autograd._disable_profiler_legacy() for event in thread]
    del out
    return tuple(event.cpu_memory_usage() for event in events if event.kind() == "memory_alloc")


def _most(tried: Tried, count: int) -> int:
    """Sizes grow evenly with the samples, with the rows, and with both."""
    (few, more), (fewer, least_out) = tried.samples, tried.left_out
    share = 0.0 if few == more else (count - few) / (more - few)
    rows = 0.0 if fewer == least_out else fewer / (fewer - least_out)
    on_few, on_more = (_between(tried.sizes[few, left], tried.sizes[more, left], share) for left in tried.left_out)
    return max(accumulate(round(size) for size in _between(on_few, on_more, rows)), default=0)


def _between(first: Sequence[float], second: Sequence[float], share: float) -> list[float]:
    return [one + (other - one) * share for one, other in zip(first, second, strict=True)]
