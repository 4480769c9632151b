"""What a name is bound to in this file: the assigned expressions, functions and classes, each with where it stands."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from remat.lint.code.names import IN_CLASS, Value
from remat.lint.code.source import At
from remat.lint.code.syntax import dotted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from remat.lint.code.names import Scope
    from remat.lint.code.parts import Part
    from remat.lint.code.source import Place, Source

_BINDING = re.compile(r"(?m)^(?:(?:async[ \t]+)?def[ \t]+|class[ \t]+)?(\w+)[ \t]*(?=[=:(])")


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


def values_of(source: Source, expression: cst.CSTNode, scope: Scope | None, place: Place) -> list[cst.CSTNode]:
    """The expression itself, or for a name that is no literal what it is bound to; empty where that is not seen."""
    if not isinstance(expression, cst.Name) or expression.value in {"True", "False", "None"}:
        return [expression]
    return [at.node for at in definitions(source, expression, scope, place)]


def module_definitions(source: Source, name: str) -> list[At[cst.CSTNode]]:
    """What the module binds `name` to, in pieces that no trigger word led to as well."""
    found: list[At[cst.CSTNode]] = []
    for place in source.once(_parsed_bindings).get(name, ()):
        nodes = _nodes(place.parsed.names[name], None, place)
        if not nodes:
            return []
        found += nodes
    for part in source.once(_skipped_bindings).get(name, ()):
        for place in source.places_of(part):
            found += _nodes(place.parsed.names.get(name, []), None, place)
    return found


def _parsed_bindings(source: Source) -> dict[str, list[Place]]:
    found: dict[str, list[Place]] = {}
    for place in source.places:
        for name in place.parsed.names:
            found.setdefault(name, []).append(place)
    return found


def _skipped_bindings(source: Source) -> dict[str, list[Part]]:
    """The pieces that seem to bind a name in the module, by a look at the start of their lines."""
    found: dict[str, list[Part]] = {}
    for part in source.parts:
        if part.skipped:
            for name in _BINDING.findall(source.text, part.piece.start, part.piece.end):
                parts = found.setdefault(name, [])
                if not parts or parts[-1] is not part:
                    parts.append(part)
    return found


def _in_class(source: Source, name: str, place: Place) -> list[At[cst.CSTNode]]:
    return [
        node
        for sibling in class_places(source, place)
        for node in _nodes(sibling.parsed.class_names.get(name, []), IN_CLASS, sibling)
    ]


def _of_attribute(source: Source, name: str, scope: Scope | None, place: Place) -> list[At[cst.CSTNode]]:
    """What the class around assigns to `self.name`; else its method of that name."""
    owner = scope and scope.enclosing_class
    if owner is None:
        return []
    if owner is IN_CLASS:
        return _in_class(source, f"self.{name}", place) or _in_class(source, name, place)
    return _nodes(owner.attributes.get(f"self.{name}") or owner.bindings.get(name, []), owner, place)


def class_places(source: Source, place: Place) -> list[Place]:
    """The pieces of the class that `place` is cut from, those without trigger words included; else `place` alone."""
    parts = source.once(_class_parts).get(id(place.piece))
    return [p for part in parts for p in source.places_of(part)] if parts else [place]


def _class_parts(source: Source) -> dict[int, list[Part]]:
    """Piece id to the pieces of its class."""
    return {id(part.piece): parts for _, parts, _ in source.groups for part in parts}


def _nodes(values: Iterable[Value], scope: Scope | None, place: Place) -> list[At[cst.CSTNode]]:
    """All of `values` as nodes, or nothing: what is bound to something unseen as well is not known."""
    nodes = list(values)
    if not all(isinstance(v, cst.CSTNode) for v in nodes):
        return []
    return [At(v, scope, place) for v in nodes if isinstance(v, cst.CSTNode)]
