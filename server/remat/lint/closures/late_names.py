"""The names a checkpointed closure captures that are bound to something else by the time backward runs it again."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from remat.lint.checkpointing import Checkpointing, Variant
from remat.lint.closures.backward import is_log
from remat.lint.closures.captures import (
    Comprehension,
    Path,
    Read,
    bound_paths,
    comprehension_targets,
    declared_outside,
    free_reads,
)
from remat.lint.closures.rebinding import Cause, Rebinding, gives_one_thing, rebindings
from remat.lint.closures.varying import changes, covers, tells_metadata
from remat.lint.code.definitions import definitions
from remat.lint.code.gradients import function_may_switch_off
from remat.lint.code.names import IN_CLASS
from remat.lint.code.syntax import Function, dotted, walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remat.lint.closures.closures import Closure
    from remat.lint.code.names import Scope
    from remat.lint.code.source import Place, Source

_CACHE = re.compile(r"past|cache")  # Hugging Face's layer loops bind it anew; in training it is None


@dataclass(frozen=True, slots=True)
class Late:
    """A captured name that is bound anew. `direct`: not only through another local function."""

    path: Path
    rebinding: Rebinding
    reads: tuple[Read, ...]
    place: Place
    direct: bool
    is_run: bool  # a layer, or the index of one
    in_forward: bool  # the new binding comes before the closure first runs


def late_names(source: Source, use: Checkpointing, closure: Closure) -> list[Late]:
    """The captured names that backward finds bound to something else, in the order they are read."""
    found: dict[Path, Late] = {}
    reentrant = use.variant in (Variant.REENTRANT, Variant.OMITTED)
    harmless = set() if reentrant else _added_last(closure.node)
    seen: set[int] = set()
    stack = [(closure.node, closure.scope, True)]
    while stack:
        function, scope, direct = stack.pop()
        if id(function) in seen:
            continue
        seen.add(id(function))
        for read in free_reads(function):
            if id(read.node) in harmless or not _matters(closure.place, function, read):
                continue
            for late in _late(closure, read, scope, direct=direct):
                if late.path in found:
                    late = _merged(found[late.path], late)  # noqa: PLW2901 - one value per name
                if reentrant or not _only_scales(closure.node, late):
                    found[late.path] = late
            stack += _local_functions(source, read, function, scope, closure.place)
    return list(found.values())


def _merged(one: Late, other: Late) -> Late:
    return Late(
        one.path,
        one.rebinding,
        (*one.reads, *other.reads),
        one.place,
        one.direct and other.direct,
        one.is_run or other.is_run,
        one.in_forward,
    )


def _local_functions(
    source: Source, read: Read, function: Function, scope: Scope | None, place: Place
) -> list[tuple[Function, Scope | None, bool]]:
    """A local function that the closure runs: what it captures, the closure depends on."""
    if len(read.path) > 1 or scope is None:
        return []
    found = definitions(source, cst.Name(read.path[0]), scope, place)
    return [
        (d.node, d.scope, False)
        for d in found
        if isinstance(d.node, cst.FunctionDef | cst.Lambda) and d.scope is not None and d.node is not function
    ]


def _matters(place: Place, function: Function, read: Read) -> bool:
    """Whether what is read can have a part in what the closure computes."""
    if _CACHE.search(read.path[-1]) or tells_metadata(read, function.body):
        return False
    for above in place.parsed.ancestors(read.node):
        if above is function:
            break
        if isinstance(above, cst.Raise | cst.Assert) or (isinstance(above, cst.Call) and is_log(above)):
            return False
        if isinstance(above, cst.Attribute) and above.attr.value in {"shape", "dtype", "device", "ndim"}:
            return False
    return True


def _late(closure: Closure, read: Read, scope: Scope | None, *, direct: bool) -> Iterator[Late]:
    place, name = closure.place, read.path[0]
    for binding, in_forward in _bound_anew(closure, name, scope):
        if covers(binding.path, read):
            run = _is_run(place, read)
            yield Late(binding.path, binding, (read,), place, direct, run, in_forward)
            return


def _bound_anew(closure: Closure, name: str, scope: Scope | None) -> Iterator[tuple[Rebinding, bool]]:
    place = closure.place
    if comprehension := _comprehension_that_binds(closure, name):
        inside = any(comprehension in place.parsed.ancestors(site) for site in closure.sites)
        if inside and not gives_one_thing(comprehension.for_in.iter):
            yield Rebinding((name,), comprehension.for_in, Cause.LOOP), closure.in_list
        return
    owner = _owner(name, scope)
    if owner is IN_CLASS or (owner is None and scope is not None):
        return
    function = owner.node if owner else None
    if function_may_switch_off(function):
        return
    known = [v for v in (owner.bindings.get(name, []) if owner else []) if isinstance(v, cst.BaseExpression)]
    for site in closure.sites:
        for binding in rebindings(place, site, function, name):
            if changes(binding, [v for v in known if v is not binding.value]):
                yield binding, closure.in_list and binding.cause is not Cause.LATER


def _comprehension_that_binds(closure: Closure, name: str) -> Comprehension | None:
    top = closure.scope.node if closure.scope else None
    below: cst.CSTNode = closure.node
    for above in closure.place.parsed.ancestors(closure.node):
        if above is top:
            return None
        if isinstance(above, Comprehension) and (name,) in comprehension_targets(above) and below is not above.for_in:
            return above
        below = above
    return None


def _owner(name: str, scope: Scope | None) -> Scope | None:
    """The function around that binds `name`; None for the module. IN_CLASS where that cannot be told."""
    at = scope
    while at is not None and at is not IN_CLASS:
        if isinstance(at.node, cst.FunctionDef | cst.Lambda):
            if name in declared_outside(at.node):
                return IN_CLASS
            if name in at.bindings:
                return at
        at = at.parent
    return None


def _is_run(place: Place, read: Read) -> bool:
    """`layer(h)`, `layer.norm(h)` or `layers[i](h)`: what is read decides which module runs."""
    for above in place.parsed.ancestors(read.node):
        if isinstance(above, cst.Call):
            return above.func is read.node or any(n is read.node for n in walk(above.func))
        if isinstance(above, cst.BinaryOperation | cst.FunctionDef | cst.Lambda):
            return False
    return False


def _result(function: Function) -> cst.BaseExpression | None:
    """The expression a function returns, where it is one."""
    if isinstance(function, cst.Lambda):
        return function.body
    returns = [n for n in walk(function.body) if isinstance(n, cst.Return)]
    return returns[0].value if len(returns) == 1 else None


def _terms(top: cst.BaseExpression | None, *operators: type[cst.BaseBinaryOp]) -> set[int]:
    """The operands at the top of an expression that these operators join."""
    found, stack = set[int](), [top] if top is not None else []
    while stack:
        node = stack.pop()
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, operators):
            stack += [node.left, node.right]
        elif node is not top:
            found.add(id(node))
    return found


def _added_last(function: Function) -> set[int]:
    """What is only added to the result: addition saves nothing, so the recompute does not need it."""
    return _terms(_result(function), cst.Add, cst.Subtract)


def _only_scales(function: Function, late: Late) -> bool:
    """`block(h) * (i + 1)`: a Python number is kept by the first forward and not recomputed."""
    loop = late.rebinding.loop
    made = loop.iter if isinstance(loop, cst.For) else None
    counts = isinstance(made, cst.Call) and dotted(made.func) in (["range"], ["enumerate"])
    target = loop.target if isinstance(loop, cst.For) else None
    first = next(bound_paths(target), None) if target is not None else None
    terms = _terms(_result(function), cst.Add, cst.Subtract, cst.Multiply, cst.Divide)
    return counts and first == late.path and all(id(r.node) in terms for r in late.reads)
