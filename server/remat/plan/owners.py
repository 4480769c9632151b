"""Which class of a file a target means: by its name, by the variable that holds one, by a line of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from remat.lint.code.source import Call
from remat.lint.code.syntax import dotted
from remat.lint.layers.classes import ancestry
from remat.plan.stacks import imported_class

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remat.lint.layers.classes import Klass
    from remat.plan.plan import Place
    from remat.plan.stacks import Code


def owners_at(code: Code, place: Place) -> list[Klass]:
    """The class that is meant; every class of the file where that is not seen."""
    named = code.known.get(place.name or "")
    if named is not None:
        return [named]
    around = [klass for klass in code.known.values() if place.line is not None and _covers(code, klass, place.line)]
    made = list(_made(code, place))
    return around or made or list(code.known.values())


def imported_at(code: Code, place: Place) -> str:
    """`model.GPT` where the target is `net = GPT(…)` and `from model import GPT` brought the class; else empty."""
    for call in _calls(code, place):
        if name := imported_class(call):
            return name
    return ""


def bases(code: Code, owner: Klass) -> set[str]:
    return {base for klass in ancestry(owner, code.known) for base in klass.bases}


def _covers(code: Code, klass: Klass, line: int) -> bool:
    text, pieces = code.source.text, [part.piece for part in klass.parts]
    first = text.count("\n", 0, min(piece.start for piece in pieces)) + 1
    return first <= line <= text.count("\n", 0, max(piece.end for piece in pieces))


def _made(code: Code, place: Place) -> Iterator[Klass]:
    """The class in `model = Tower(…)`, for the variable `model` or the line of that statement."""
    for call in _calls(code, place):
        klass = code.known.get(".".join(dotted(call.node.func)))
        if klass is not None:
            yield klass


def _calls(code: Code, place: Place) -> Iterator[Call]:
    source = code.source
    for at in source.nodes(cst.Assign):
        value = at.node.value
        if not isinstance(value, cst.Call):
            continue
        span = source.span(at.place, at.node)
        line = source.text.count("\n", 0, span.start) + 1 if span else None
        names = [".".join(dotted(one.target)) for one in at.node.targets]
        if (place.name is not None and place.name in names) or (place.line is not None and place.line == line):
            yield Call(value, at.scope, at.place, source.meanings(value.func, at.scope, at.place))
