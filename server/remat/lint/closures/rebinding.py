"""What is bound anew between a call and the backward pass that runs its callable again."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from remat.lint.closures.backward import runs_backward
from remat.lint.closures.captures import Path, bound_paths, reads
from remat.lint.code.gradients import may_switch_off
from remat.lint.code.syntax import children, dotted, walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from remat.lint.code.source import Place

Loop = cst.For | cst.While


class Cause(Enum):
    LOOP = "the target of a loop around the call"
    TURN = "assigned in a loop around the call, for its next turn"
    OWN = "assigned the call's own result"
    LATER = "assigned further down"


@dataclass(frozen=True, slots=True)
class Rebinding:
    """`node` stands on the line to point at. `loop`: the one whose next turn comes by here."""

    path: Path
    node: cst.CSTNode
    cause: Cause
    value: cst.BaseExpression | None = None
    loop: Loop | None = None


class _Leaves(Enum):
    BREAK = "break"
    CONTINUE = "continue"
    FOR_GOOD = "return, raise, or backward has run"


def rebindings(place: Place, call: cst.CSTNode, function: cst.CSTNode | None, name: str) -> list[Rebinding]:
    """What may bind `name`, or an attribute of it, after `call` and before backward runs.

    `function` is the one that `name` belongs to, None the module.

    Silence is preferred: a path ends at anything that may run backward, wherever in the loop's body that is.
    """
    return list(_after(place, call, function, name))


def _after(place: Place, call: cst.CSTNode, function: cst.CSTNode | None, name: str) -> Iterator[Rebinding]:
    above = list(place.parsed.ancestors(call))
    if function is not None:
        above = above[: next((i for i, a in enumerate(above) if a is function), 0)]
    if any(isinstance(a, cst.With) and may_switch_off(*a.items) for a in above):
        return
    inner = sum(isinstance(a, cst.FunctionDef | cst.Lambda) for a in above)  # those bind names of their own
    by_others = not _is_carried_on(call, above)
    below: cst.CSTNode = call
    leaving: _Leaves | None = None
    for node in above:
        found: Iterable[Rebinding] = ()
        if _ends(node, below, by_others=by_others):
            return
        if isinstance(node, cst.FunctionDef | cst.Lambda):
            inner, leaving = inner - 1, None
        elif isinstance(node, cst.For | cst.While) and below is node.body:
            found = _next_turn(place, node, call, name) if leaving is not _Leaves.BREAK else ()
            leaving = None
        elif isinstance(node, cst.Assign | cst.AnnAssign | cst.AugAssign | cst.NamedExpr):
            found = [Rebinding(p, node, Cause.OWN, node.value) for p in _paths(node)]
        elif isinstance(node, cst.Return | cst.Raise):
            leaving = _Leaves.FOR_GOOD
        elif leaving is None:
            found, leaving = _further_down(node, below, by_others=by_others)
        if not inner:
            yield from (f for f in found if f.path[0] == name)
            if leaving is _Leaves.FOR_GOOD:
                return
        below = node


def _is_carried_on(call: cst.CSTNode, above: list[cst.CSTNode]) -> bool:
    """`x = checkpoint(…, x)`: the next layer works on the result, so whatever looks at it meanwhile trains nothing."""
    targets = {path for node in above if isinstance(node, cst.Assign) for path in _paths(node)}
    arguments = call.args if isinstance(call, cst.Call) else ()
    return any(
        read.path in targets for a in arguments if not isinstance(a.value, cst.Lambda) for read in reads(a.value)
    )


def _ends(node: cst.CSTNode, below: cst.CSTNode, *, by_others: bool) -> bool:
    """Whether nothing outside of `node` can come between the call in `below` and backward."""
    if isinstance(node, cst.FunctionDef | cst.Lambda | cst.For | cst.While):
        return below is node.body and runs_backward(node.body, by_others=by_others)
    return isinstance(node, cst.ClassDef | cst.Yield)


def _further_down(node: cst.CSTNode, below: cst.CSTNode, *, by_others: bool) -> tuple[list[Rebinding], _Leaves | None]:
    """What the statements after `below` in `node` bind, up to the one that leaves, and how that leaves."""
    later: list[cst.CSTNode] = []
    if isinstance(node, cst.Try | cst.TryStar):
        parts = [*node.handlers, node.orelse, node.finalbody] if below is node.body else [node.finalbody]
        later = [part for part in parts if part is not None]
    elif block := _block(node):
        later = block[block.index(below) + 1 :]
    found: list[Rebinding] = []
    for statement in later:
        found += bound(statement)
        if leaving := _leaves(statement, by_others=by_others):
            return found, leaving
    return found, None


def _block(node: cst.CSTNode) -> list[cst.CSTNode]:
    """The statements of a block or line, none for other nodes."""
    blocks = (cst.IndentedBlock, cst.SimpleStatementSuite, cst.SimpleStatementLine, cst.Module)
    return list(node.body) if isinstance(node, blocks) else []


def _leaves(statement: cst.CSTNode, *, by_others: bool) -> _Leaves | None:
    if runs_backward(statement, by_others=by_others):
        return _Leaves.FOR_GOOD
    for part in _block(statement) or [statement]:
        if isinstance(part, cst.Break):
            return _Leaves.BREAK
        if isinstance(part, cst.Continue):
            return _Leaves.CONTINUE
        if isinstance(part, cst.Return | cst.Raise):
            return _Leaves.FOR_GOOD
    return None


def _next_turn(place: Place, loop: Loop, call: cst.CSTNode, name: str) -> Iterator[Rebinding]:
    if isinstance(loop, cst.For) and not gives_one_thing(loop.iter):
        yield from (Rebinding(p, loop.target, Cause.LOOP, loop=loop) for p in bound_paths(loop.target))
    chosen = _branches(place, call, loop)
    for found in bound_by_a_turn(loop):
        if found.path[0] != name:
            continue
        other = _branches(place, found.node, loop)
        if all(other.get(choice, branch) == branch for choice, branch in chosen.items()):
            yield found


def _branches(place: Place, node: cst.CSTNode, top: cst.CSTNode) -> dict[int, int]:
    """Which branch of each `if` between `node` and `top` leads to `node`."""
    found: dict[int, int] = {}
    below = node
    for above in place.parsed.ancestors(node):
        if above is top:
            break
        if isinstance(above, cst.If) and below is not above.test:
            found[id(above)] = id(below)
        below = above
    return found


@lru_cache(512)  # as in `backward`
def bound(top: cst.CSTNode, cause: Cause = Cause.LATER, loop: Loop | None = None) -> tuple[Rebinding, ...]:
    """Everything that the code below `top` binds, save what a test for None guards: that happens once."""
    return tuple(_bound(top, cause, loop))


def bound_by_a_turn(loop: Loop) -> tuple[Rebinding, ...]:
    """What the body binds, and the test of a `while` with `:=`."""
    tested = bound(loop.test, Cause.TURN, loop) if isinstance(loop, cst.While) else ()
    return (*tested, *bound(loop.body, Cause.TURN, loop))


def _bound(top: cst.CSTNode, cause: Cause, loop: Loop | None) -> Iterator[Rebinding]:
    stack = [(top, frozenset[Path]())]
    while stack:
        node, guarded = stack.pop()
        if isinstance(node, cst.FunctionDef):
            yield Rebinding((node.name.value,), node, cause, None, loop)
        if isinstance(node, cst.FunctionDef | cst.ClassDef | cst.Lambda):
            continue
        if isinstance(node, cst.If):
            guarded |= {r.path for r in reads(node.test) if _about_none(node.test)}
        value = getattr(node, "value", None) if not isinstance(node, cst.For) else None
        yield from (Rebinding(p, node, cause, value, loop) for p in _paths(node) if p not in guarded)
        stack.extend((child, guarded) for child in reversed(children(node)))


def _about_none(test: cst.BaseExpression) -> bool:
    return isinstance(test, cst.UnaryOperation) or any(
        isinstance(n, cst.Name) and n.value == "None" for n in walk(test)
    )


def _paths(node: cst.CSTNode) -> list[Path]:
    if isinstance(node, cst.Assign):
        return [p for t in node.targets for p in bound_paths(t.target)]
    if isinstance(node, cst.AnnAssign | cst.AugAssign | cst.NamedExpr | cst.For):
        return list(bound_paths(node.target)) if getattr(node, "value", True) is not None else []
    return []


def gives_one_thing(iterable: cst.BaseExpression) -> bool:
    """`[block] * 6`, `[block]`, `repeat(block)`: every turn binds the same."""
    if isinstance(iterable, cst.BinaryOperation) and isinstance(iterable.operator, cst.Multiply):
        return any(gives_one_thing(side) for side in (iterable.left, iterable.right))
    if isinstance(iterable, cst.List | cst.Tuple):
        return len(iterable.elements) == 1 and not isinstance(iterable.elements[0], cst.StarredElement)
    return isinstance(iterable, cst.Call) and dotted(iterable.func)[-1:] == ["repeat"]
