"""What a convolution takes on this CPU, found by running it once: on zeros, and on as few samples as tell.

oneDNN has a dozen ways to convolve. Which one it takes, in which layouts and with what scratchpad, depends on shapes,
instructions, caches and threads, and it tells nobody before it runs. What it allocates grows evenly with the samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, cast

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from remat.probe.target.calls import Callee

_MOST_WORK = 6e10
"""multiplications that one operator may take to try, a second or two; larger ones are left to the rules"""
_MOST_WORK_IN_ALL = 4e11
_spent = 0.0
_known: dict[object, Tried | None] = {}
_SEVERAL_SAMPLES = 16
"""from here on torch gives a convolution to oneDNN even where there is one thread (Convolution.cpp, `use_mkldnn`)"""


@dataclass(frozen=True, slots=True)
class Tried:
    """Bytes allocated, or freed where negative, one after the other, for two numbers of samples."""

    samples: tuple[int, int]
    first: tuple[int, ...]
    second: tuple[int, ...]


def peak(func: Callee[object], args: Sequence[object], batched: int, work: float) -> int | None:
    """The most bytes that `func` holds at once, its results included; None where it is too large to try, or fails.

    The first `batched` arguments are batches of samples. `work`: how many multiplications it does.
    """
    count = cast("torch.Tensor", args[0]).shape[0]
    few, more = _samples(count)
    if not _can_watch() or count == 0:
        return None
    key = (func, few, more, *_likeness(args, batched), torch.get_num_threads(), torch.backends.mkldnn.enabled)
    if key not in _known:
        _known[key] = _try(func, args, batched, (few, more), work * (few + more) / count)
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
    func: Callee[object], args: Sequence[object], batched: int, samples: tuple[int, int], work: float
) -> Tried | None:
    global _spent  # noqa: PLW0603 -- what a process may spend on this is a property of the process
    if work > _MOST_WORK or _spent + work > _MOST_WORK_IN_ALL:
        return None
    _spent += work
    try:
        with torch.utils._python_dispatch._disable_current_modes(), torch.no_grad():
            first = _allocations(func, _real(args, batched, samples[0]))
            second = first if samples[0] == samples[1] else _allocations(func, _real(args, batched, samples[1]))
    except RuntimeError:  # no memory, or a kernel that this CPU has not
        return None
    alike = [size > 0 for size in first] == [size > 0 for size in second]
    return Tried(samples, first, second) if alike else None


def _real(args: Sequence[object], batched: int, samples: int) -> list[object]:
    return [
        _zeros(item, samples if number < batched else item.shape[0]) if isinstance(item, torch.Tensor) else item
        for number, item in enumerate(args)
    ]


def _zeros(like: torch.Tensor, samples: int) -> torch.Tensor:
    """Laid out as `like` is, with so many samples."""
    shape, stride = [samples, *like.shape[1:]] if like.dim() else [], list(like.stride())
    order = _order(like)
    if samples != like.shape[0] and order[0] != 0 and like.numel() == _extent(like.shape, stride):
        step = 1
        for dim in reversed(order):
            stride[dim], step = step, step * shape[dim]
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
    few, more = tried.samples
    share = 0.0 if few == more else (count - few) / (more - few)
    sizes = [one + round((other - one) * share) for one, other in zip(tried.first, tried.second, strict=True)]
    return max(accumulate(sizes), default=0)
