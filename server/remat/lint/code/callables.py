"""The functions that an expression runs when it is called: a def, a lambda, a method, or the forward of a module."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from remat.lint.code.definitions import class_places, definitions
from remat.lint.code.modules import constructors
from remat.lint.code.source import At

if TYPE_CHECKING:
    from remat.lint.code.names import Scope
    from remat.lint.code.source import Place, Source
    from remat.lint.code.syntax import Function


def functions_run(source: Source, callable_: cst.CSTNode, scope: Scope | None, place: Place) -> list[At[Function]]:
    """Every function that `callable_` may be; empty unless each one is seen in this file."""
    if isinstance(callable_, cst.Lambda):
        return [At(callable_, scope, place)]
    if made := constructors(source, callable_, scope, place):
        forwards = [forward_of(source, call) for call in made]
        return [f for f in forwards if f] if all(forwards) else []
    found = definitions(source, callable_, scope, place)
    functions: list[At[Function]] = [
        At(d.node, d.scope, d.place) for d in found if isinstance(d.node, cst.FunctionDef | cst.Lambda)
    ]
    return functions if len(functions) == len(found) else []


def forward_of(source: Source, constructor: At[cst.Call]) -> At[Function] | None:
    """The forward of the class that `constructor` makes one of; None where that is not in this file."""
    classes = definitions(source, constructor.node.func, constructor.scope, constructor.place)
    if len(classes) != 1 or not isinstance(classes[0].node, cst.ClassDef):
        return None
    for place in class_places(source, classes[0].place):
        for node, scope in place.parsed.nodes.get(cst.FunctionDef, ()):
            if isinstance(node, cst.FunctionDef) and node.name.value == "forward":
                owner = next((a for a in place.parsed.ancestors(node) if isinstance(a, cst.ClassDef)), None)
                if owner is classes[0].node or (place.parsed.prefix and owner in place.parsed.tree.body):
                    return At(node, scope, place)
    return None
