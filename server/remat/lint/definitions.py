"""What a name is bound to in this file: the assigned expressions, functions and classes, each with where it stands."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from remat.lint.names import IN_CLASS, Value
from remat.lint.source import At
from remat.lint.syntax import dotted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from remat.lint.names import Scope
    from remat.lint.source import Place, Source


def definitions(source: Source, expression: cst.CSTNode, scope: Scope | None, place: Place) -> list[At[cst.CSTNode]]:
    """The values of a name or `self.attribute`. Empty where it is bound by anything that is not seen whole here."""
    parts = dotted(expression)
    if len(parts) == 1:
        return _of_name(source, parts[0], scope, place)
    if len(parts) == 2 and parts[0] == "self":
        return _of_attribute(source, parts[1], scope, place)
    return []


def _of_name(source: Source, name: str, scope: Scope | None, place: Place) -> list[At[cst.CSTNode]]:
    at = scope
    while at is not None:
        if at is IN_CLASS:
            if scope is IN_CLASS and (found := _in_class(source, name, place)):
                return found
        elif (at is scope or not isinstance(at.node, cst.ClassDef)) and name in at.bindings:
            return _nodes(at.bindings[name], at, place)
        at = at.parent
    return module_definitions(source, name)


def module_definitions(source: Source, name: str) -> list[At[cst.CSTNode]]:
    """What the module binds `name` to, in pieces that no trigger word led to as well."""
    binding = re.compile(rf"(?m)^(?:(?:async[ \t]+)?def|class)[ \t]+{re.escape(name)}\b|^{re.escape(name)}[ \t]*[=:]")
    found: list[At[cst.CSTNode]] = []
    for place in source.places:
        if values := place.parsed.names.get(name):
            nodes = _nodes(values, None, place)
            if not nodes:
                return []
            found += nodes
    for part in source.parts:
        if part.skipped and binding.search(source.text, part.piece.start, part.piece.end):
            for place in source.places_of(part):
                found += _nodes(place.parsed.names.get(name, []), None, place)
    return found


def _in_class(source: Source, name: str, place: Place) -> list[At[cst.CSTNode]]:
    return [
        node
        for sibling in class_places(source, place)
        for node in _nodes(sibling.parsed.class_names.get(name, []), IN_CLASS, sibling)
    ]


def _of_attribute(source: Source, name: str, scope: Scope | None, place: Place) -> list[At[cst.CSTNode]]:
    """What the class around assigns to `self.name`; else its method of that name."""
    at = scope
    while at is not None and at is not IN_CLASS:
        if isinstance(at.node, cst.ClassDef):
            return _nodes(at.attributes.get(f"self.{name}") or at.bindings.get(name, []), at, place)
        at = at.parent
    return (_in_class(source, f"self.{name}", place) or _in_class(source, name, place)) if at is IN_CLASS else []


def class_places(source: Source, place: Place) -> list[Place]:
    """The pieces of the class that `place` is cut from, those without trigger words included; else `place` alone."""
    for _, parts in source.groups:
        if any(part.piece is place.piece for part in parts):
            return [p for part in parts for p in source.places_of(part)]
    return [place]


def _nodes(values: Iterable[Value], scope: Scope | None, place: Place) -> list[At[cst.CSTNode]]:
    """All of `values` as nodes, or nothing: what is bound to something unseen as well is not known."""
    nodes = list(values)
    if not all(isinstance(v, cst.CSTNode) for v in nodes):
        return []
    return [At(v, scope, place) for v in nodes if isinstance(v, cst.CSTNode)]
