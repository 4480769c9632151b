"""What an expression of a forward does to the shape of its tensor, as far as its text tells."""

from __future__ import annotations

import ast

from remat.probe.target.statements import dotted

_CONVERSIONS = {"list", "tuple", "pad", "cat", "concat", "normalize", "flip"}


def is_conversion(value: ast.expr, name: str) -> bool:
    """`x = pad(x, …)`, `x = list(x)`: still the data that came in."""
    if not isinstance(value, ast.Call) or not value.args or dotted(value.func).split(".")[-1] not in _CONVERSIONS:
        return False
    first = value.args[0]
    return isinstance(first, ast.Name) and first.id == name


def moves_last(name: str, call: ast.Call) -> bool:
    """Tell whether `permute(0, 2, 1)` or `transpose(1, 2)` puts another axis last, of three."""
    try:
        axes = [ast.literal_eval(argument) for argument in call.args]
    except ValueError:
        return False
    return axes[-1:] not in ([2], [-1]) if name == "permute" else bool({2, -1} & set(axes))


def side_by_side(call: ast.Call) -> bool:
    """Tell whether `cat([a, b], 1)` makes more channels of two inputs, not more samples."""
    named = (k.value for k in call.keywords if k.arg in {"dim", "axis"})
    axis = next(iter([*call.args[1:2], *named]), None)
    try:
        return axis is not None and ast.literal_eval(axis) != 0
    except ValueError:
        return False
