"""Which constructor calls a module expression stands for: `self.block`, `self.layers[i]`, a layer loop's variable."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from remat.lint.code.definitions import class_places, definitions
from remat.lint.code.loop_targets import loop_over, loop_that_binds
from remat.lint.code.source import At
from remat.lint.code.syntax import dotted

if TYPE_CHECKING:
    from remat.lint.code.names import Scope
    from remat.lint.code.source import Place, Source

CONTAINERS = frozenset({"torch.nn.ModuleList", "torch.nn.Sequential", "torch.nn.modules.container.ModuleList"})


def constructors(source: Source, module: cst.CSTNode, scope: Scope | None, place: Place) -> list[At[cst.Call]]:
    """The calls that make the module(s) `module` may be; empty unless each one is seen in this file."""
    if isinstance(module, cst.Name):
        if loop_that_binds(place, module):
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
