"""The edit that binds what a closure captures when it is made, as default arguments, and whether that is safe."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from remat.finding import Edit
from remat.lint.closures.captures import Path, bound_paths, names_in
from remat.lint.closures.defaults import add_default
from remat.lint.closures.rebinding import Rebinding, bound
from remat.lint.code.syntax import dotted, parameters, walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from remat.lint.checkpointing import Checkpointing
    from remat.lint.closures.closures import Closure
    from remat.lint.closures.late_names import Late
    from remat.lint.code.source import Place, Source


def bind_early(
    source: Source, closure: Closure, late: Sequence[Late], uses: Sequence[Checkpointing]
) -> tuple[tuple[Edit, ...], bool] | None:
    """The edits that bind the names as default arguments, and whether they are safe; None where they would not help."""
    if not all(name.direct for name in late) or any(len(name.path) > 2 for name in late):
        return None
    if not all(_surely_bound(source, closure, name.path) for name in late):
        return None  # a default is evaluated at once: it would raise where the closure itself never reads the name
    if closure.name is not None and not all(_still_bound(source, closure, name.path) for name in late):
        return None
    parameters, edits = list[str](), list[Edit]()
    for name in late:
        parameter = name.path[-1]
        if len(name.path) == 2 and not _renamed(source, closure, name, edits):
            return None
        parameters.append(f"{parameter}={'.'.join(name.path)}")
    added = add_default(source, closure.place, closure.node, ", ".join(parameters))
    safe = not closure.in_list and (closure.name is None or _only_checkpointed(source, closure, late, uses))
    return ((*added, *edits), safe) if added else None


def _renamed(source: Source, closure: Closure, name: Late, edits: list[Edit]) -> bool:
    """Replace `self.current` by `current`; False where that name means something else inside."""
    wanted = name.path[-1]
    if wanted in names_in(closure.node):
        return False
    for read in name.reads:
        node = read.node
        while isinstance(node, cst.Attribute) and len(dotted(node)) > len(name.path):
            node = node.value
        span = source.span(closure.place, node)
        if span is None:
            return False
        edits.append(Edit(span, wanted))
    return True


def _surely_bound(source: Source, closure: Closure, path: Path) -> bool:
    """Whether every way to the closure binds `path`: a parameter, a loop around, an earlier statement of its blocks."""
    if len(path) == 1 and closure.scope is not None and None in closure.scope.bindings.get(path[0], []):
        function = closure.scope.node
        if isinstance(function, cst.FunctionDef | cst.Lambda) and path[0] in {
            p.name.value for p in parameters(function)
        }:
            return True
    place = closure.place
    made = source.span(place, closure.node)
    above = list(place.parsed.ancestors(closure.node))
    around = {id(a) for a in above}
    if any(isinstance(a, cst.BaseComp) and path in _comprehended(a) for a in above):
        return True
    for binding in _bindings(closure, path):
        span = source.span(place, binding.node)
        if made is None or span is None or span.start >= made.start:
            continue
        loop = next((a for a in (binding.node, *place.parsed.ancestors(binding.node)) if isinstance(a, cst.For)), None)
        if loop is not None and id(loop.body) in around and path in bound_paths(loop.target):
            return True
        if not isinstance(binding.node, cst.For) and _runs_before(place, binding.node, around):
            return True
    return False


def _comprehended(comprehension: cst.BaseComp) -> list[Path]:
    return [p for n in walk(comprehension) if isinstance(n, cst.CompFor) for p in bound_paths(n.target)]


def _runs_before(place: Place, node: cst.CSTNode, around: set[int]) -> bool:
    """Whether a statement before the closure always runs before it: each block that holds it holds the closure too."""
    blocks = (cst.IndentedBlock, cst.SimpleStatementSuite, cst.IfExp, cst.BooleanOperation, cst.ListComp, cst.Lambda)
    return all(id(above) in around for above in place.parsed.ancestors(node) if isinstance(above, blocks))


def _still_bound(source: Source, closure: Closure, path: Path) -> bool:
    """Whether a local function is made in the turn of its calls, after `path` is bound and not before it is again."""
    place = closure.place
    made = source.span(place, closure.node)
    runs = [source.span(place, site) for site in closure.sites]
    if made is None or not all(runs) or _loop_around(place, closure.node) != _loop_around(place, closure.sites[0]):
        return False
    spans = [s for s in (source.span(place, b.node) for b in _bindings(closure, path)) if s]
    parameter = closure.scope is not None and None in closure.scope.bindings.get(path[0], [])
    before = parameter or any(s.start < made.start for s in spans)
    between = any(made.end <= s.start and s.end <= run.start for s in spans for run in runs if run)
    return before and not between and all(made.start < run.start or run == made for run in runs if run)


def _bindings(closure: Closure, path: Path) -> list[Rebinding]:
    top = closure.scope.node.body if closure.scope and closure.scope.node else closure.place.parsed.tree
    return [b for b in bound(top) if b.path == path]


def _loop_around(place: Place, node: cst.CSTNode) -> int | None:
    above = place.parsed.ancestors(node)
    return next((id(a) for a in above if isinstance(a, cst.For | cst.While)), None)


def _only_checkpointed(source: Source, closure: Closure, late: Sequence[Late], uses: Sequence[Checkpointing]) -> bool:
    """Whether the local function is only called or checkpointed, each time before any of the names is bound anew."""
    place = closure.place
    made = source.span(place, closure.node)
    top = closure.scope.node.body if closure.scope and closure.scope.node else place.parsed.tree
    given = {id(u.wrapped.value) for u in uses if u.wrapped is not None}
    called = {id(n.func) for n in walk(top) if isinstance(n, cst.Call)}
    bound_here = {id(n.target) for n in walk(top) if isinstance(n, cst.AssignTarget)}
    bound_here |= {id(n.name) for n in walk(top) if isinstance(n, cst.FunctionDef)}
    rebound = [source.span(place, b.node) for name in late for b in _bindings(closure, name.path)]
    for node in walk(top):
        if isinstance(node, cst.Name) and node.value == closure.name and id(node) not in bound_here:
            at = source.span(place, node)
            if at is None or made is None:
                return False
            if id(node) not in given | called or at.start < made.start:
                return False
            if any(s and made.end <= s.start and s.end <= at.start for s in rebound):
                return False
    return True
