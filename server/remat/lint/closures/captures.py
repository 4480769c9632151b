"""What a lambda or nested function reads from around it. Python looks those names up when it runs, not before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from remat.lint.code.names import bindings_of
from remat.lint.code.syntax import Function, children, dotted, parameters, walk, walk_here

if TYPE_CHECKING:
    from collections.abc import Iterator

Path = tuple[str, ...]  # ("layer",), or ("self", "current") for an attribute
Comprehension = cst.ListComp | cst.SetComp | cst.DictComp | cst.GeneratorExp

_NO_READS = (cst.Import, cst.ImportFrom, cst.Global, cst.Nonlocal, cst.Annotation, cst.AsName)


@dataclass(frozen=True, slots=True)
class Read:
    """A name, or a chain of attributes as far as it is written, that is looked up."""

    path: Path
    node: cst.CSTNode


def free_reads(function: Function) -> list[Read]:
    """What `function`, when it runs, looks up outside itself, in source order."""
    return list(_reads(function.body, _locals(function)))


def reads(expression: cst.CSTNode) -> list[Read]:
    """What `expression` looks up when it is evaluated, and what functions made in it will."""
    return list(_reads(expression, frozenset()))


def _reads(top: cst.CSTNode, local: frozenset[str]) -> Iterator[Read]:
    stack = [(top, local)]
    while stack:
        node, local = stack.pop()
        if isinstance(node, cst.Name | cst.Attribute) and (path := dotted(node)):
            if path[0] not in local:
                yield Read(tuple(path), node)
        else:
            stack.extend(reversed(list(_below(node, local))))


def _below(node: cst.CSTNode, local: frozenset[str]) -> Iterator[tuple[cst.CSTNode, frozenset[str]]]:
    """The parts of `node` that are evaluated, each with the names that mean something of its own there."""
    if isinstance(node, cst.FunctionDef | cst.Lambda):
        yield from ((d, local) for d in getattr(node, "decorators", ()))
        yield from ((p.default, local) for p in parameters(node) if p.default is not None)
        yield node.body, local | _locals(node)
    elif isinstance(node, Comprehension):
        yield from _below_comprehension(node, local)
    elif isinstance(node, cst.Attribute | cst.Arg):
        yield node.value, local
    elif isinstance(node, cst.MatchKeywordElement):
        yield node.pattern, local
    elif isinstance(node, cst.AssignTarget | cst.NamedExpr | cst.For | cst.AnnAssign):
        yield from ((part, local) for part in _evaluated(node.target))
        yield from ((child, local) for child in children(node) if child is not node.target)
    elif isinstance(node, cst.ClassDef):
        yield from ((child, local) for child in children(node) if child not in (node.name, node.body))
        yield node.body, local | frozenset(bindings_of([node.body]))
    elif not isinstance(node, _NO_READS):
        yield from ((child, local) for child in children(node))


def _below_comprehension(node: Comprehension, local: frozenset[str]) -> Iterator[tuple[cst.CSTNode, frozenset[str]]]:
    """Its first iterable is evaluated outside of it, everything else inside."""
    inside = local | {path[0] for path in comprehension_targets(node) if len(path) == 1}
    yield node.for_in.iter, local
    yield from ((part, inside) for part in ((node.key, node.value) if isinstance(node, cst.DictComp) else (node.elt,)))
    at: cst.CompFor | None = node.for_in
    while at is not None:
        yield from ((condition.test, inside) for condition in at.ifs)
        at = at.inner_for_in
        if at is not None:
            yield at.iter, inside


def _evaluated(target: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """What an assignment target looks up: `a` of `a.b` and `a[i]`, nothing of a plain name."""
    if isinstance(target, cst.Tuple | cst.List):
        for element in target.elements:
            yield from _evaluated(element.value)
    elif isinstance(target, cst.StarredElement | cst.Attribute):
        yield from (target.value,) if isinstance(target, cst.Attribute) else _evaluated(target.value)
    elif not isinstance(target, cst.Name):
        yield target


def _locals(function: Function) -> frozenset[str]:
    declared = declared_outside(function)
    matched = (n.value for at in walk_here(function.body) for n in _captured_by_pattern(at))
    bound = bindings_of([function.body], (p.name.value for p in parameters(function)))
    return frozenset({*bound, *matched}) - declared


def _captured_by_pattern(node: cst.CSTNode) -> Iterator[cst.Name]:
    if isinstance(node, cst.MatchAs | cst.MatchStar) and node.name is not None:
        yield node.name
    elif isinstance(node, cst.MatchMapping) and node.rest is not None:
        yield node.rest


def declared_outside(function: Function) -> frozenset[str]:
    """The names that `global` and `nonlocal` take from around."""
    if isinstance(function, cst.Lambda):
        return frozenset()
    found = (n for n in walk_here(function.body) if isinstance(n, cst.Global | cst.Nonlocal))
    return frozenset(item.name.value for statement in found for item in statement.names)


def bound_paths(target: cst.CSTNode) -> Iterator[Path]:
    """The names and attributes that an assignment target binds: `a`, `(a, *b)`, `a.b`; not `a[0]`."""
    if isinstance(target, cst.Tuple | cst.List):
        for element in target.elements:
            yield from bound_paths(element.value)
    elif isinstance(target, cst.StarredElement):
        yield from bound_paths(target.value)
    elif path := dotted(target):
        yield tuple(path)


def comprehension_targets(node: Comprehension) -> Iterator[Path]:
    at: cst.CompFor | None = node.for_in
    while at is not None:
        yield from bound_paths(at.target)
        at = at.inner_for_in


def names_in(function: Function) -> frozenset[str]:
    """Every plain name that means something inside, so that a new one can be chosen."""
    attributes = {id(n.attr) for n in walk(function.body) if isinstance(n, cst.Attribute)}
    used = (n.value for n in walk(function.body) if isinstance(n, cst.Name) and id(n) not in attributes)
    return frozenset([*used, *(p.name.value for p in parameters(function))])
