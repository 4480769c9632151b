"""Lengths and counts that are known stay known: torch's fakes know single values alone, and forget them soon."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)

if TYPE_CHECKING:
    from collections.abc import Callable

Unknowable = (DataDependentOutputException, DynamicOutputShapeException)
FEW = 4096
"""values of a tensor that are kept: lengths and counts are few, data are many"""


def constant(mode: FakeTensorMode, values: torch.Tensor) -> torch.Tensor:
    """A fake that knows its few values."""
    return mode.fake_tensor_converter.from_real_tensor(mode, values, make_constant=True)


def knows_any(args: tuple[object, ...]) -> bool:
    return any(isinstance(a, FakeTensor) and a.constant is not None for a in args)


def run_knowing(
    mode: FakeTensorMode,
    run: Callable[[], object],
    func: torch._ops.OpOverload,
    args: tuple[object, ...],
    kwargs: dict[str, object],
) -> object:
    """`run()`, which is `func` on fakes, with the values of its result where all that it takes has some."""
    taken = [t for t in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
    known = [(t, t.constant) for t in taken if isinstance(t, FakeTensor) and t.constant is not None]
    unknown = [t for t in taken if (isinstance(t, FakeTensor) and t.constant is None) or t.device.type == "meta"]
    pure = not func._schema.is_mutable and torch.Tag.nondeterministic_seeded not in func.tags
    try:
        out = run()
    except Unknowable:
        if pure and not unknown:  # how many differ, and which are set, is known of what is known
            return _worked_out(mode, func, args, kwargs)
        raise
    if pure and not unknown:
        for fake, value in known:
            _know(mode, fake, value)
        _work_out(mode, func, args, kwargs, out)
    return out


def _work_out(
    mode: FakeTensorMode,
    func: torch._ops.OpOverload,
    args: tuple[object, ...],
    kwargs: dict[str, object],
    out: object,
) -> None:
    made = out if isinstance(out, list | tuple) else [out]
    left = [t for t in made if isinstance(t, FakeTensor) and t.constant is None]
    if not left or any(t.numel() > FEW for t in left):
        return
    values = _real(func, args, kwargs)
    for fake, value in zip(made, values if isinstance(values, list | tuple) else [values], strict=True):
        if isinstance(fake, FakeTensor):
            _know(mode, fake, value)


def _worked_out(
    mode: FakeTensorMode, func: torch._ops.OpOverload, args: tuple[object, ...], kwargs: dict[str, object]
) -> object:
    values = _real(func, args, kwargs)
    return torch.utils._pytree.tree_map_only(torch.Tensor, lambda value: constant(mode, value), values)


def _real(func: torch._ops.OpOverload, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
    real = torch.utils._pytree.tree_map_only(FakeTensor, lambda t: t.constant, (args, kwargs))
    with torch.utils._python_dispatch._disable_current_modes():
        return cast("object", func(*real[0], **real[1]))


def _know(mode: FakeTensorMode, fake: FakeTensor, value: torch.Tensor) -> None:
    fake.constant = value
    mode.fake_tensor_converter.add_constant_storage_mapping(fake)
