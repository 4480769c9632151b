"""The closures that are given to checkpoint: lambdas and local functions, in a call, by name or in a list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from remat.lint.checkpointing import PARTIAL_CALLS, Checkpointing, Form
from remat.lint.code.definitions import definitions
from remat.lint.code.loop_targets import loop_over
from remat.lint.code.syntax import Function, dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remat.lint.code.names import Scope
    from remat.lint.code.source import Place, Source


@dataclass(frozen=True, slots=True)
class Closure:
    """`sites`: the calls that run it under checkpoint. `name`: of a local function that is given by name."""

    node: Function
    scope: Scope | None  # that it is made in
    place: Place
    sites: tuple[cst.CSTNode, ...]
    name: str | None = None
    in_list: bool = False

    @property
    def kind(self) -> str:
        return "lambda" if isinstance(self.node, cst.Lambda) else "function"

    @property
    def what(self) -> str:
        """What it is called in messages."""
        return f"`{self.name}`" if self.name else f"the {self.kind}"


def closures(source: Source, use: Checkpointing) -> Iterator[Closure]:
    """The lambdas and local functions that one use of checkpoint wraps."""
    call, place = use.call, use.call.place
    if place.stale or use.form is Form.PARTIAL:
        return  # what such a partial wraps is seen at its calls
    if use.wrapped is not None:
        yield from _of(source, use.wrapped.value, call.scope, place, (call.node,), in_list=use.sequential)
        return
    above = list(place.parsed.ancestors(call.node))[:2]
    if len(above) == 2 and isinstance(above[0], cst.Decorator) and isinstance(above[1], cst.FunctionDef):
        made = above[1]
        yield Closure(made, call.scope, place, _calls_of(place, made.name.value), made.name.value)
    elif above and isinstance(above[0], cst.Call) and above[0].func is call.node and above[0].args:
        sites = _runs(place, above[0])
        yield from _of(source, above[0].args[0].value, call.scope, place, sites, in_list=False)


def _runs(place: Place, curried: cst.Call) -> tuple[cst.CSTNode, ...]:
    """Where `checkpoint(use_reentrant=False)(f)` is called: at once, or by the name it is given."""
    above = next(place.parsed.ancestors(curried), None)
    if isinstance(above, cst.Call) and above.func is curried:
        return (above,)
    named = [t.target for t in above.targets] if isinstance(above, cst.Assign) else []
    return tuple(c for t in named if isinstance(t, cst.Name) for c in _calls_of(place, t.value))


def _calls_of(place: Place, name: str) -> tuple[cst.CSTNode, ...]:
    calls = (node for node, _ in place.parsed.nodes.get(cst.Call, ()) if isinstance(node, cst.Call))
    return tuple(c for c in calls if isinstance(c.func, cst.Name) and c.func.value == name)


def _of(
    source: Source,
    wrapped: cst.BaseExpression,
    scope: Scope | None,
    place: Place,
    sites: tuple[cst.CSTNode, ...],
    *,
    in_list: bool,
) -> Iterator[Closure]:
    if isinstance(wrapped, cst.Lambda):
        yield Closure(wrapped, scope, place, (wrapped,) if in_list else sites, in_list=in_list)
    elif isinstance(wrapped, cst.Call) and wrapped.args:
        function = source.meanings(wrapped.func, scope, place)
        if function & set(PARTIAL_CALLS) or (in_list and dotted(wrapped.func) in (["list"], ["tuple"])):
            yield from _of(source, wrapped.args[0].value, scope, place, sites, in_list=in_list)
    elif isinstance(wrapped, cst.List | cst.Tuple) and in_list:
        for element in wrapped.elements:
            yield from _of(source, element.value, scope, place, sites, in_list=True)
    elif isinstance(wrapped, cst.ListComp | cst.GeneratorExp) and in_list:
        yield from _of(source, wrapped.elt, scope, place, sites, in_list=True)
    elif isinstance(wrapped, cst.Name):
        if (made_before := loop_over(place, wrapped)) is not None:
            yield from _listed(source, made_before, scope, place, sites)
        yield from _named(source, wrapped, scope, place, sites, in_list=in_list)
    elif isinstance(wrapped, cst.Subscript) and not in_list:
        yield from _listed(source, wrapped.value, scope, place, sites)


def _listed(
    source: Source, functions: cst.BaseExpression, scope: Scope | None, place: Place, sites: tuple[cst.CSTNode, ...]
) -> Iterator[Closure]:
    """What a list holds that is complete before its functions run; a generator makes each as it is asked for it."""
    if isinstance(functions, cst.Name):
        found = definitions(source, functions, scope, place)
        filled = (_loops(place, item)[:1] for item, _ in _appended(place, functions.value))
        running = [id(loop) for loop in _loops(place, functions)]
        listed = len(found) == 1 and found[0].place is place and isinstance(found[0].node, cst.List | cst.ListComp)
        if listed and not any(id(loop) in running for loops in filled for loop in loops):
            yield from _named(source, functions, scope, place, sites, in_list=True)
    elif isinstance(functions, cst.List | cst.ListComp):
        yield from _of(source, functions, scope, place, sites, in_list=True)


def _loops(place: Place, node: cst.CSTNode) -> list[cst.CSTNode]:
    return [above for above in place.parsed.ancestors(node) if isinstance(above, cst.For | cst.While)]


def _named(
    source: Source,
    name: cst.Name,
    scope: Scope | None,
    place: Place,
    sites: tuple[cst.CSTNode, ...],
    *,
    in_list: bool,
) -> Iterator[Closure]:
    for found in definitions(source, name, scope, place):
        if found.place is not place:
            continue
        if isinstance(found.node, cst.FunctionDef | cst.Lambda):
            where = (found.node,) if in_list else sites
            yield Closure(found.node, found.scope, place, where, name.value, in_list)
        elif isinstance(found.node, cst.Call | cst.List | cst.ListComp | cst.Tuple):
            yield from _of(source, found.node, found.scope, place, sites, in_list=in_list)
            if in_list:
                for item, inner in _appended(place, name.value):
                    yield from _of(source, item, inner, place, sites, in_list=True)


def _appended(place: Place, name: str) -> Iterator[tuple[cst.BaseExpression, Scope | None]]:
    for node, scope in place.parsed.nodes.get(cst.Call, ()):
        if isinstance(node, cst.Call) and dotted(node.func) == [name, "append"] and len(node.args) == 1:
            yield node.args[0].value, scope
