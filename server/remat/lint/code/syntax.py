"""Walking libcst trees without libcst's visitors, matchers or metadata, which cost more than the parse itself."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import libcst as cst

if TYPE_CHECKING:
    from collections.abc import Iterator

_TRIVIA = frozenset(
    """lpar rpar lbracket rbracket lbrace rbrace leading_lines lines_after_decorators header footer indent newline
    trailing_whitespace comma semicolon equal colon dot operator asynchronous encoding default_indent default_newline
    has_trailing_newline""".split()
)
_LEAVES = (cst.Name, cst.SimpleString, cst.Integer, cst.Float, cst.Pass, cst.Break, cst.Continue)
_NO_NODES = frozenset({type(None), str, bool, int, cst.MaybeSentinel})
_FIELDS: dict[type, tuple[str, ...]] = {}

Function = cst.FunctionDef | cst.Lambda
SCOPES = frozenset({cst.FunctionDef, cst.Lambda, cst.ClassDef})


def _fields(kind: type[cst.CSTNode]) -> tuple[str, ...]:
    """The fields of a node type that can hold code, in source order; white space is never walked."""
    if kind not in _FIELDS:
        names = () if issubclass(kind, _LEAVES) else tuple(f.name for f in dataclasses.fields(kind))
        _FIELDS[kind] = tuple(n for n in names if n not in _TRIVIA and not n.startswith("whitespace"))
    return _FIELDS[kind]


def children(node: cst.CSTNode) -> list[cst.CSTNode]:
    """The nodes directly below. By type, not by isinstance: libcst's classes are ABCs, whose checks cost far more."""
    found: list[cst.CSTNode] = []
    for name in _fields(type(node)):
        value = getattr(node, name)
        kind = type(value)
        if kind is tuple or kind is list:
            found += value
        elif kind not in _NO_NODES:
            found.append(value)
    return found


def walk(*tops: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The nodes below and including `tops`, in source order."""
    stack = list(reversed(tops))
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(children(node)))


def walk_here(*tops: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Like `walk`, but nested functions, lambdas and classes are yielded without their insides."""
    stack = list(reversed(tops))
    while stack:
        node = stack.pop()
        yield node
        if type(node) not in SCOPES:
            stack.extend(reversed(children(node)))


def dotted(node: cst.CSTNode) -> list[str]:
    """`["a", "b", "c"]` for `a.b.c`; empty for anything that is not a chain of names."""
    parts: list[str] = []
    while type(node) is cst.Attribute:
        parts.append(node.attr.value)
        node = node.value
    return [*parts, node.value][::-1] if type(node) is cst.Name else []


def is_literal(node: cst.CSTNode | None, text: str) -> bool:
    """Whether `node` is the name-like literal `text`: True, False or None."""
    return isinstance(node, cst.Name) and node.value == text


def string_value(node: cst.CSTNode) -> str | None:
    """What a plain string literal says; None for anything else, one with a broken escape included."""
    if not isinstance(node, cst.SimpleString | cst.ConcatenatedString):
        return None
    try:
        value = node.evaluated_value
    except (SyntaxError, ValueError):
        return None
    return value if isinstance(value, str) else None


def parameters(function: Function) -> list[cst.Param]:
    """Every parameter, `*args` and `**kwargs` included."""
    p = function.params
    rest = (q for q in (p.star_arg, p.star_kwarg) if isinstance(q, cst.Param))
    return [*p.posonly_params, *p.params, *p.kwonly_params, *rest]


def targets(node: cst.CSTNode) -> Iterator[str]:
    """The plain names that an assignment target binds: `a`, `(a, *b)`, not `a.b` or `a[0]`."""
    kind = type(node)
    if kind is cst.Name:
        yield node.value  # type: ignore[attr-defined]
    elif kind is cst.Tuple or kind is cst.List:
        for element in node.elements:  # type: ignore[attr-defined]
            yield from targets(element.value)
    elif kind is cst.StarredElement:
        yield from targets(node.value)  # type: ignore[attr-defined]
