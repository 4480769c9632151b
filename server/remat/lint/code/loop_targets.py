"""What each name of a loop's target goes through: the one reading of enumerate, zip, reversed and a dict's methods."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from remat.lint.code.syntax import targets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remat.lint.code.source import Place

_SAME_ITEMS = frozenset({"reversed", "list", "tuple", "iter", "tqdm"})


def loop_targets(
    target: cst.CSTNode, iterable: cst.BaseExpression, *, zipped: bool = False
) -> Iterator[tuple[str, cst.BaseExpression, bool]]:
    """(name, what it iterates over, whether zipped with something) for each plain name of a loop's target."""
    if isinstance(iterable, cst.Call) and isinstance(iterable.func, cst.Name) and iterable.args:
        function, arguments = iterable.func.value, [a.value for a in iterable.args]
        names = [e.value for e in target.elements] if isinstance(target, cst.Tuple) else []
        if function == "enumerate" and len(names) == 2:
            yield from loop_targets(names[1], arguments[0], zipped=zipped)
            return
        if function == "zip" and len(names) == len(arguments):
            for name, argument in zip(names, arguments, strict=True):
                yield from loop_targets(name, argument, zipped=len(names) > 1)
            return
        if function in _SAME_ITEMS:
            yield from loop_targets(target, arguments[0], zipped=zipped)
            return
    if isinstance(iterable, cst.Call) and isinstance(iterable.func, cst.Attribute) and not iterable.args:
        method, values = iterable.func.attr.value, iterable.func.value
        if method in {"items", "named_children"} and isinstance(target, cst.Tuple) and len(target.elements) == 2:
            yield from loop_targets(target.elements[1].value, values, zipped=zipped)
        elif method in {"values", "children"}:
            yield from loop_targets(target, values, zipped=zipped)
        return
    if isinstance(target, cst.Name):
        yield target.value, iterable, zipped


def iterated(target: cst.CSTNode, iterable: cst.BaseExpression, name: str) -> cst.BaseExpression | None:
    """`self.layers` for `layer` in `for i, (layer, x) in enumerate(zip(self.layers, xs))`."""
    return next((through for bound, through, _ in loop_targets(target, iterable) if bound == name), None)


def loop_that_binds(place: Place, name: cst.Name) -> cst.For | None:
    """The `for` statement around `name`, in its function, that binds it."""
    for above in place.parsed.ancestors(name):
        if isinstance(above, cst.For) and name.value in targets(above.target):
            return above
        if isinstance(above, cst.FunctionDef | cst.ClassDef):
            return None
    return None


def loop_over(place: Place, name: cst.Name) -> cst.BaseExpression | None:
    """What the loop around `name` that binds it goes through."""
    loop = loop_that_binds(place, name)
    return None if loop is None else iterated(loop.target, loop.iter, name.value)
