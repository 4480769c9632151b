"""Loops that hand only some positions of a list to checkpoint, where the choice is written into the code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from remat.lint.code.syntax import walk
from remat.lint.layers.positions import LENGTH, assigned, holds, number, picked

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from remat.lint.layers.loops import LayerLoop
    from remat.lint.layers.sites import Sites

_ALL = frozenset(range(LENGTH))
_LAST = frozenset({LENGTH - 1})


@dataclass(frozen=True, slots=True)
class Picked:
    """`loop` is where the finding stands; `by` the condition or slice that picks.

    `beside`: the loop that checkpoints the other layers, where `loop` is the bare rest.
    """

    loop: LayerLoop
    by: cst.BaseExpression
    skipped: frozenset[int]  # of a list of LENGTH layers
    beside: LayerLoop | None = None
    removable: bool = False  # `by` is a part of a condition that must hold, and without it every layer is checkpointed

    @property
    def only_last(self) -> bool:
        return _ALL - self.skipped == _LAST

    @property
    def one(self) -> bool:
        return len(self.skipped) == 1


def picked_layers(loops: Sequence[LayerLoop], sites: Sites) -> Iterator[Picked]:
    """`loops`: those of one class, or of one function."""
    for loop in loops:
        if loop.checkpointed and not loop.unclear:
            if loop.taken is None:
                yield from _by_condition(loop, sites)
            elif loop.alone:
                yield from _by_slice(loop, loops, sites)


def _by_condition(loop: LayerLoop, sites: Sites) -> Iterator[Picked]:
    installs = any(id(call) in sites.installing for call in loop.checkpointed)
    wrapped = [_reached(loop, call) for call in loop.checkpointed]
    plain = [_reached(loop, call) for call in loop.plain]
    if not any(_about_position(test, loop) for reached in wrapped for test, _ in reached.outcomes):
        return
    skipped = frozenset(
        n
        for n in range(LENGTH)
        if all(tests.at(n) is False for tests in wrapped) and (installs or any(t.at(n) is not False for t in plain))
    )
    if skipped and skipped not in (_LAST, _ALL):
        tests = [(part, leads) for w in wrapped for test, leads in w.outcomes for part in _parts(test, leads=leads)]
        by = next(((t, leads) for t, leads in tests if _about_position(t, loop)), None)
        if by is not None:
            yield Picked(loop, by[0], skipped, removable=by[1] and len(wrapped) == 1)


@dataclass(frozen=True, slots=True)
class _Reached:
    """The conditions between a loop and a call in it, with the outcome that leads there."""

    loop: LayerLoop
    outcomes: tuple[tuple[cst.BaseExpression, bool], ...]

    def at(self, position: int) -> bool | None:
        """Whether the element at `position` gets to the call; None where it may."""
        results = [holds(t, position, self.loop.indexes, self.loop.scope) for t, _ in self.outcomes]
        if any(r is not None and r is not wanted for r, (_, wanted) in zip(results, self.outcomes, strict=True)):
            return False
        return None if None in results else True


def _reached(loop: LayerLoop, call: cst.Call) -> _Reached:
    outcomes: list[tuple[cst.BaseExpression, bool]] = []
    below: cst.CSTNode = call
    for above in loop.place.parsed.ancestors(call):
        if isinstance(above, cst.If | cst.IfExp) and below is not above.test:
            outcomes.append((above.test, below is above.body))
        elif isinstance(above, cst.IndentedBlock):
            outcomes += ((test, False) for test in _left_before(above, below))
        if above is loop.loop:
            break
        below = above
    return _Reached(loop, tuple(outcomes))


def _left_before(block: cst.IndentedBlock, statement: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """The tests of `if …: …; continue` that stand before `statement`."""
    for before in block.body:
        if before is statement:
            return
        if isinstance(before, cst.If) and before.orelse is None and isinstance(before.body, cst.IndentedBlock):
            last = before.body.body[-1]
            if isinstance(last, cst.SimpleStatementLine) and isinstance(last.body[-1], cst.Continue):
                yield before.test


def _parts(test: cst.BaseExpression, *, leads: bool) -> Iterator[cst.BaseExpression]:
    """The conditions that must all hold for `test` to lead to the call; `test` itself where it must fail."""
    if leads and isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
        yield from _parts(test.left, leads=True)
        yield from _parts(test.right, leads=True)
    else:
        yield test


def _about_position(test: cst.BaseExpression, loop: LayerLoop) -> bool:
    """Whether the condition fails at some positions and not at others; asked of few, since each edit asks again."""
    names = (n for n in walk(test) if isinstance(n, cst.Name))
    if not any(n.value in loop.indexes or assigned(n, loop.scope) is not None for n in names):
        return False
    results = {holds(test, n, loop.indexes, loop.scope) for n in range(LENGTH)}
    return False in results and len(results) > 1


def _by_slice(loop: LayerLoop, loops: Sequence[LayerLoop], sites: Sites) -> Iterator[Picked]:
    taken = picked(loop.taken, loop.scope) if loop.taken is not None else None
    if not taken:
        return
    left = _ALL - taken
    if any(id(call) in sites.installing for call in loop.checkpointed):
        if left and left != _LAST:
            yield Picked(loop, loop.loop.iter, left)
        return
    for other in loops:
        if other.layers == loop.layers and other.function is loop.function and other.taken and other.plain:
            also = picked(other.taken, other.scope)
            skipped = left & also if also and not other.checkpointed and not other.unclear else frozenset[int]()
            if skipped and skipped != _LAST:
                yield Picked(other, other.loop.iter, skipped, loop)
                return
    skipped = frozenset(_run_alone(loop)) & left
    if skipped and skipped != _LAST:
        yield Picked(loop, loop.loop.iter, skipped)


def _run_alone(loop: LayerLoop) -> Iterator[int]:
    """The positions that the function runs by literal index: `self.layers[0](x)`."""
    function = loop.function
    for node in walk(function.body) if function is not None else ():
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Subscript) and len(node.func.slice) == 1:
            index = node.func.slice[0].slice
            if isinstance(index, cst.Index) and node.func.value.deep_equals(loop.container):
                at = number(index.value, 0, frozenset(), loop.scope)
                if at is not None:
                    yield at % LENGTH
