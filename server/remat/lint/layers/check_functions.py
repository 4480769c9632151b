"""What `apply_activation_checkpointing(model, check_fn=…)` leaves out: block types of the file that none names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from remat.lint.checkpointing import APPLY
from remat.lint.code.definitions import definitions
from remat.lint.code.source import At
from remat.lint.code.syntax import dotted
from remat.lint.layers.classes import ancestry, may_checkpoint, parts
from remat.lint.layers.stacks import kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from remat.lint.code.source import Call, Source
    from remat.lint.layers.classes import Klass

_HELD = re.compile(r"(?:ModuleList|Sequential|append)\(\s*\*?\s*[\[(]?\s*(\w+)\(")


@dataclass(frozen=True, slots=True)
class Missed:
    """`tested`: what isinstance compares with, a class or a tuple of classes."""

    call: Call
    tested: At[cst.BaseExpression]
    named: tuple[str, ...]
    missed: tuple[str, ...]


def missed(source: Source, known: Mapping[str, Klass]) -> Iterator[Missed]:
    calls = list(source.calls(APPLY))
    tests = [_tested(source, call) for call in calls]
    named = [_names(test.node) for test in tests if test is not None]
    if not calls or None in tests or not all(named):
        return
    everywhere = {name for names in named for name in names}
    for call, test, names in zip(calls, tests, named, strict=True):
        left = tuple(k.name for k in _left_out(names, everywhere, known))
        if left and test is not None:
            yield Missed(call, test, names, left)


def _tested(source: Source, call: Call) -> At[cst.BaseExpression] | None:
    """The second argument of the `isinstance` that is all of the check_fn; None for any other check_fn."""
    given = call.keyword("check_fn")
    if given is None:
        return None
    found = [At(given.value, call.scope, call.place)]
    if isinstance(given.value, cst.Name):
        found = [d for d in definitions(source, given.value, call.scope, call.place) if isinstance(d.node, cst.CSTNode)]  # type: ignore[misc]
    body = _returned(found[0].node) if len(found) == 1 else None
    if isinstance(body, cst.Call) and dotted(body.func) == ["isinstance"] and len(body.args) == 2:
        return At(body.args[1].value, found[0].scope, found[0].place)
    return None


def _returned(function: cst.CSTNode) -> cst.BaseExpression | None:
    if isinstance(function, cst.Lambda):
        return function.body
    if isinstance(function, cst.FunctionDef) and isinstance(function.body, cst.IndentedBlock):
        last = function.body.body[-1]
        small = last.body[-1] if isinstance(last, cst.SimpleStatementLine) and len(function.body.body) == 1 else None
        return small.value if isinstance(small, cst.Return) else None
    return None


def _names(tested: cst.BaseExpression) -> tuple[str, ...]:
    nodes = [e.value for e in tested.elements] if isinstance(tested, cst.Tuple) else [tested]
    return (
        tuple(n.value for n in nodes if isinstance(n, cst.Name)) if all(isinstance(n, cst.Name) for n in nodes) else ()
    )


def _left_out(names: tuple[str, ...], everywhere: set[str], known: Mapping[str, Klass]) -> Iterator[Klass]:
    """The classes held in lists by the same models as the named ones, as heavy as they, and not part of them."""
    owners = {held: owner for owner in known.values() for held in _HELD.findall(owner.text) if held in known}
    chosen = [known[n] for n in names if n in owners]
    inside = {part for k in chosen for part in parts(k, known)}
    for name, owner in owners.items():
        klass = known[name]
        if any(a.name in everywhere for a in ancestry(klass, known)) or name in inside:
            continue
        if parts(klass, known) & everywhere or may_checkpoint(klass, known):
            continue
        for other in chosen:
            if kind(klass) and kind(klass) == kind(other) and _in_one_model(owner, owners[other.name], known):
                yield klass
                break


def _in_one_model(one: Klass, other: Klass, known: Mapping[str, Klass]) -> bool:
    return one is other or any({one.name, other.name} <= parts(k, known) | {k.name} for k in known.values())
