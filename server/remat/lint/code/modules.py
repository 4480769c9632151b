"""Which constructor calls a module expression stands for: `self.block`, `self.layers[i]`, a layer loop's variable."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from remat.lint.code.definitions import class_places, definitions
from remat.lint.code.source import At
from remat.lint.code.syntax import dotted, targets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remat.lint.code.names import Scope
    from remat.lint.code.source import Place, Source

CONTAINERS = frozenset({"torch.nn.ModuleList", "torch.nn.Sequential", "torch.nn.modules.container.ModuleList"})
_PASSED_THROUGH = frozenset({"enumerate", "zip", "reversed", "list", "tuple", "iter", "range"})


def constructors(source: Source, module: cst.CSTNode, scope: Scope | None, place: Place) -> list[At[cst.Call]]:
    """The calls that make the module(s) `module` may be; empty unless each one is seen in this file."""
    if isinstance(module, cst.Name):
        if _loop_that_binds(place, module):
            element = loop_over(place, module)
            return elements(source, element, scope, place) if element is not None else []
    elif isinstance(module, cst.Subscript):
        return elements(source, module.value, scope, place)
    made: list[At[cst.Call]] = []
    for value in definitions(source, module, scope, place):
        if not isinstance(value.node, cst.Call):
            return []
        made.append(At(value.node, value.scope, value.place))
    return made


def elements(source: Source, container: cst.CSTNode, scope: Scope | None, place: Place) -> list[At[cst.Call]]:
    """The calls that make what `self.layers` (a ModuleList, Sequential, list, or a slice of one) holds."""
    if isinstance(container, cst.Subscript):
        container = container.value
    made: list[At[cst.Call]] = []
    values = definitions(source, container, scope, place)
    for value in values:
        inside = held(source, value)
        if inside is None:
            return []
        made += inside
    if values:
        made += _appended(source, container, place)
    return made


def held(source: Source, value: At[cst.CSTNode]) -> list[At[cst.Call]] | None:
    """What a container expression holds; None where that is not all in sight."""
    node = value.node
    if isinstance(node, cst.Call):
        names = source.meanings(node.func, value.scope, value.place)
        if not names & CONTAINERS:
            return None
        # `self.layers = nn.ModuleList(layers)`: the attribute is the class's, the list is the method's.
        calls = value.place.parsed.nodes.get(cst.Call, ())
        scope = next((s for n, s in calls if n is node), value.scope)
        listed = not any(name.endswith("Sequential") for name in names)
        made: list[At[cst.Call]] = []
        for arg in node.args:
            inside = _held_by_argument(source, At(arg.value, scope, value.place), starred=arg.star == "*" or listed)
            if inside is None:
                return None
            made += inside
        return made
    return _held_by_argument(source, value, starred=True)


def _held_by_argument(source: Source, value: At[cst.CSTNode], *, starred: bool) -> list[At[cst.Call]] | None:
    node = value.node
    if isinstance(node, cst.ListComp | cst.GeneratorExp):
        node = node.elt
    elif isinstance(node, cst.List | cst.Tuple):
        calls = [e.value for e in node.elements]
        return _as_calls(calls, value)
    elif isinstance(node, cst.Name) and starred:
        values = definitions(source, node, value.scope, value.place)
        parts = [held(source, v) for v in values]
        appended = _appended(source, node, value.place)
        return [call for p in parts if p for call in p] + appended if values and None not in parts else None
    return _as_calls([node], value)


def _as_calls(nodes: list[cst.BaseExpression] | list[cst.CSTNode], at: At[cst.CSTNode]) -> list[At[cst.Call]] | None:
    calls = [At(n, at.scope, at.place) for n in nodes if isinstance(n, cst.Call)]
    return calls if len(calls) == len(nodes) else None


def _appended(source: Source, container: cst.CSTNode, place: Place) -> list[At[cst.Call]]:
    """`Block()` in `self.layers.append(Block())`, anywhere in the class or piece around."""
    parts = dotted(container)
    return [
        At(argument, scope, sibling)
        for sibling in class_places(source, place)
        for call, scope in sibling.parsed.nodes.get(cst.Call, ())
        if isinstance(call, cst.Call) and dotted(call.func) == [*parts, "append"]
        for argument in (a.value for a in call.args)
        if isinstance(argument, cst.Call)
    ]


def loop_over(place: Place, name: cst.Name) -> cst.BaseExpression | None:
    """What the loop around `name` that binds it goes through: `self.layers` for `layer`."""
    loop = _loop_that_binds(place, name)
    return None if loop is None else _matching_iterable(loop, name.value)


def _loop_that_binds(place: Place, name: cst.Name) -> cst.For | None:
    """The `for` around `name` that binds it."""
    for above in place.parsed.ancestors(name):
        if isinstance(above, cst.For) and name.value in targets(above.target):
            return above
        if isinstance(above, cst.FunctionDef | cst.ClassDef):
            return None
    return None


def _matching_iterable(loop: cst.For, name: str) -> cst.BaseExpression | None:
    """`self.layers` for `layer` in `for i, (layer, x) in enumerate(zip(self.layers, xs))`."""
    return next(iter(_pairs(loop.target, loop.iter, name)), None)


def _pairs(target: cst.CSTNode, iterable: cst.BaseExpression, name: str) -> Iterator[cst.BaseExpression]:
    if isinstance(iterable, cst.Call) and isinstance(iterable.func, cst.Name) and iterable.args:
        function, arguments = iterable.func.value, [a.value for a in iterable.args]
        if function == "enumerate" and isinstance(target, cst.Tuple) and len(target.elements) == 2:
            yield from _pairs(target.elements[1].value, arguments[0], name)
            return
        if function == "zip" and isinstance(target, cst.Tuple) and len(target.elements) == len(arguments):
            for element, argument in zip(target.elements, arguments, strict=True):
                yield from _pairs(element.value, argument, name)
            return
        if function in _PASSED_THROUGH:
            yield from _pairs(target, arguments[0], name)
            return
    if isinstance(target, cst.Name) and target.value == name:
        yield iterable
