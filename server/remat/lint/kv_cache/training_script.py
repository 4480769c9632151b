"""The calls and assignments of a file by name, indexed once per piece: an edit reads anew only what it touched."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import libcst as cst

from remat.lint.code.source import Call
from remat.lint.code.syntax import dotted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from remat.lint.code.names import Scope
    from remat.lint.code.parsed import Parsed
    from remat.lint.code.source import Place, Source

# Pieces that say something about a model, its cache or its training; the rest of a file is not parsed for this.
_WORTH = re.compile(
    r"\buse_cache\b|from_pretrained|from_config|Trainer\b|TrainingArguments|\.backward\(|training_step"
    r"|For(?:CausalLM|Cond)|LMHeadModel|get_peft_model|quantization_config|load_in_[48]bit"
    r"|model\w*[ \t]*(?:,[^\n=(]*)?=[ \t\w]|model\(|\(\s*(?:\w+\s*=\s*)?\w*model\s*[,)]"
)
_INDEX: WeakKeyDictionary[Parsed, _Index] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class _Index:
    """What one piece holds, whatever lies around it."""

    calls: dict[str, list[tuple[cst.Call, Scope | None]]]  # by the last name of what is called
    assigned: dict[str, list[tuple[cst.BaseExpression, int | None, Scope | None]]]


@dataclass(frozen=True, slots=True)
class Assigned:
    """A value bound to a name; `element` is its place in an unpacked tuple."""

    value: cst.BaseExpression
    element: int | None
    scope: Scope | None
    place: Place


@dataclass(frozen=True, slots=True)
class Script:
    """The pieces of a file that can tell how a model is built, set and trained."""

    source: Source
    places: tuple[Place, ...]
    whole: bool  # nothing that may matter is half-typed: what is not found here is not in the file

    def named(self, *last: str) -> Iterator[Call]:
        """The calls of a function or method with one of these last names, whatever stands before it."""
        for place in self.places:
            index = _index(place.parsed)
            for name in last:
                for node, scope in index.calls.get(name, ()):
                    yield Call(node, scope, place, self.source.meanings(node.func, scope, place))

    def meaning(self, wanted: Callable[[str], bool]) -> Iterator[Call]:
        """The calls with a dotted name that is wanted, each once, in source order."""
        for place in self.places:
            by_name = place.parsed.by_name(self.source.module, place.names)
            found = {id(node): meant for name in by_name if wanted(name) for node, _, meant in by_name[name]}
            for node, scope in place.parsed.nodes.get(cst.Call, ()) if found else ():
                if isinstance(node, cst.Call) and id(node) in found:
                    yield Call(node, scope, place, found[id(node)])

    def assigned(self, name: str) -> list[Assigned]:
        return [
            Assigned(value, element, scope, place)
            for place in self.places
            for value, element, scope in _index(place.parsed).assigned.get(name, ())
        ]

    @property
    def bound(self) -> set[str]:
        """Every name that something is assigned to."""
        return {name for place in self.places for name in _index(place.parsed).assigned}


def read_script(source: Source) -> Script:
    worth = [p for p in source.parts if not p.skipped or _WORTH.search(source.text, p.piece.start, p.piece.end)]
    read = [source.places_of(part) for part in worth]
    return Script(source, tuple(place for some in read for place in some), all(read))


def _index(parsed: Parsed) -> _Index:
    known = _INDEX.get(parsed)
    if known is None:
        known = _INDEX[parsed] = _Index(defaultdict(list), defaultdict(list))
        for call, scope in parsed.nodes.get(cst.Call, ()):
            if isinstance(call, cst.Call):
                func = call.func.attr if isinstance(call.func, cst.Attribute) else call.func
                if isinstance(func, cst.Name):
                    known.calls[func.value].append((call, scope))
        for node, scope in parsed.nodes.get(cst.Assign, ()):
            if isinstance(node, cst.Assign):
                for name, element in _targets(node):
                    known.assigned[name].append((node.value, element, scope))
    return known


def _targets(node: cst.Assign) -> Iterator[tuple[str, int | None]]:
    for target in node.targets:
        if isinstance(target.target, cst.Tuple):
            for i, element in enumerate(target.target.elements):
                if name := ".".join(dotted(element.value)):
                    yield name, i
        elif name := ".".join(dotted(target.target)):
            yield name, None
