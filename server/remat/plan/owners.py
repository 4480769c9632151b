"""Which class of a file a target means: by its name, by the variable that holds one, by a line of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from remat.lint.code.syntax import dotted
from remat.lint.layers.classes import ancestry

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


def bases(code: Code, owner: Klass) -> set[str]:
    return {base for klass in ancestry(owner, code.known) for base in klass.bases}


def _covers(code: Code, klass: Klass, line: int) -> bool:
    text, pieces = code.source.text, [part.piece for part in klass.parts]
    first = text.count("\n", 0, min(piece.start for piece in pieces)) + 1
    return first <= line <= text.count("\n", 0, max(piece.end for piece in pieces))


def _made(code: Code, place: Place) -> Iterator[Klass]:
    """The class in `model = Tower(…)`, for the variable `model` or the line of that statement."""
    for at in code.source.nodes(cst.Assign):
        called = at.node.value.func if isinstance(at.node.value, cst.Call) else None
        klass = code.known.get(".".join(dotted(called))) if called is not None else None
        if klass is None:
            continue
        span = code.source.span(at.place, at.node)
        line = code.source.text.count("\n", 0, span.start) + 1 if span else None
        names = [".".join(dotted(one.target)) for one in at.node.targets]
        if (place.name is not None and place.name in names) or (place.line is not None and place.line == line):
            yield klass
