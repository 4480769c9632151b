"""Floating-point operations of an operator, by torch's own formulas."""

from __future__ import annotations

from typing import cast

from torch.utils.flop_counter import flop_registry


def flops_of(func: object, args: tuple[object, ...], kwargs: dict[str, object], out: object) -> float:
    """Of matrix products, convolutions and attention; 0 for all else, as torch's FlopCounterMode counts."""
    formula = flop_registry.get(getattr(func, "_overloadpacket", None))
    if formula is None:
        return 0.0
    try:
        return float(cast("float", formula(*args, **kwargs, out_val=out)))
    except (TypeError, ValueError, AssertionError, IndexError):  # a form of the call that torch's formula doesn't know
        return 0.0
