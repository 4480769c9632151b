"""Which positions of a list a condition or slice picks, where that is written in the code and not configured."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

import libcst as cst

from remat.lint.code.syntax import dotted

if TYPE_CHECKING:
    from collections.abc import Callable

    from remat.lint.code.names import Scope

LENGTH = 48  # of the list as it is imagined: longer than literal thresholds are, divisible by 2, 3, 4, 6, 8
_HOPS = 3

Number = int | None  # None: not known here, as with everything that is configured

_ARITHMETIC: dict[type[cst.CSTNode], Callable[[int, int], int]] = {
    cst.Add: operator.add,
    cst.Subtract: operator.sub,
    cst.Multiply: operator.mul,
    cst.FloorDivide: operator.floordiv,
    cst.Modulo: operator.mod,
    cst.BitAnd: operator.and_,
    cst.BitOr: operator.or_,
    cst.BitXor: operator.xor,
}
_COMPARISON: dict[type[cst.CSTNode], Callable[[int, int], bool]] = {
    cst.Equal: operator.eq,
    cst.NotEqual: operator.ne,
    cst.LessThan: operator.lt,
    cst.LessThanEqual: operator.le,
    cst.GreaterThan: operator.gt,
    cst.GreaterThanEqual: operator.ge,
}


def number(
    node: cst.CSTNode | None, position: int, indexes: frozenset[str], scope: Scope | None, hops: int = _HOPS
) -> Number:
    """What `node` is worth for the element at `position`; None where that is not known, or too deeply nested to ask."""
    try:
        return _number(node, position, indexes, scope, hops)
    except RecursionError:
        return None


def _number(
    node: cst.CSTNode | None, position: int, indexes: frozenset[str], scope: Scope | None, hops: int = _HOPS
) -> Number:
    if isinstance(node, cst.Integer):
        return _integer(node)
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        value = _number(node.expression, position, indexes, scope, hops)
        return None if value is None else -value
    if isinstance(node, cst.BinaryOperation) and type(node.operator) in _ARITHMETIC:
        left = _number(node.left, position, indexes, scope, hops)
        right = _number(node.right, position, indexes, scope, hops)
        return None if left is None or right is None else _apply(type(node.operator), left, right)
    if isinstance(node, cst.Call) and dotted(node.func) == ["len"] and len(node.args) == 1:
        return LENGTH
    if isinstance(node, cst.Call) and dotted(node.func) == ["int"] and len(node.args) == 1:
        return _number(node.args[0].value, position, indexes, scope, hops)
    if isinstance(node, cst.Name):
        if node.value in indexes:
            return position
        made = assigned(node, scope)
        return _number(made, position, indexes, scope, hops - 1) if made is not None and hops else None
    return None


def _integer(node: cst.Integer) -> Number:
    try:
        return int(node.value, 0)
    except ValueError:  # more digits than Python converts
        return None


def _apply(kind: type[cst.CSTNode], left: int, right: int) -> Number:
    if right == 0 and kind in {cst.FloorDivide, cst.Modulo}:
        return None
    return _ARITHMETIC[kind](left, right)


def assigned(name: cst.Name, scope: Scope | None) -> cst.CSTNode | None:
    """The one expression that the function assigns to a local name. A module's constant is a setting: not followed."""
    values = scope.bindings.get(name.value, []) if scope is not None else []
    return values[0] if len(values) == 1 and isinstance(values[0], cst.CSTNode) else None


def holds(
    test: cst.CSTNode, position: int, indexes: frozenset[str], scope: Scope | None, hops: int = _HOPS
) -> bool | None:
    """Whether the condition is true for the element at `position`; None where more than the position decides."""
    try:
        return _holds(test, position, indexes, scope, hops)
    except RecursionError:
        return None


def _holds(
    test: cst.CSTNode, position: int, indexes: frozenset[str], scope: Scope | None, hops: int = _HOPS
) -> bool | None:
    if isinstance(test, cst.BooleanOperation):
        left = _holds(test.left, position, indexes, scope, hops)
        right = _holds(test.right, position, indexes, scope, hops)
        decides = isinstance(test.operator, cst.Or)
        return decides if decides in (left, right) else (None if None in (left, right) else not decides)
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        value = _holds(test.expression, position, indexes, scope, hops)
        return None if value is None else not value
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        return _compared(test, position, indexes, scope, hops)
    if isinstance(test, cst.Name) and test.value not in indexes:
        made = assigned(test, scope)
        return _holds(made, position, indexes, scope, hops - 1) if made is not None and hops else None
    worth = number(test, position, indexes, scope, hops)
    return None if worth is None else bool(worth)


def _compared(
    test: cst.Comparison, position: int, indexes: frozenset[str], scope: Scope | None, hops: int
) -> bool | None:
    compared = test.comparisons[0]
    left = number(test.left, position, indexes, scope, hops)
    if left is None:
        return None
    if isinstance(compared.operator, cst.In | cst.NotIn):
        if not isinstance(compared.comparator, cst.List | cst.Tuple | cst.Set):
            return None
        among = [number(e.value, position, indexes, scope, hops) for e in compared.comparator.elements]
        return None if None in among else (left in among) is isinstance(compared.operator, cst.In)
    right = number(compared.comparator, position, indexes, scope, hops)
    compare = _COMPARISON.get(type(compared.operator))
    return None if right is None or compare is None else compare(left, right)


def picked(taken: cst.Slice, scope: Scope | None) -> frozenset[int] | None:
    """The positions that `[lower:upper:step]` takes; None where a bound is configured."""
    bounds: list[Number] = []
    for bound in (taken.lower, taken.upper, taken.step):
        value = None if bound is None else number(bound, 0, frozenset(), scope)
        if bound is not None and value is None:
            return None
        bounds.append(value)
    return frozenset(range(LENGTH)[slice(*bounds)]) if bounds[2] != 0 else None
