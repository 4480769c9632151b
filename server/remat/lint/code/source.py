"""A Python file as pieces that are parsed once per text; rules ask it for calls and spans, wherever they lie."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Generic, TypeVar, cast

import libcst as cst

from remat.finding import Span
from remat.lint.code.names import PARTIAL, Environment, Meanings, Scope, environment, meanings
from remat.lint.code.parsed import CallsByName, Interest, Key, Parsed, parse
from remat.lint.code.parts import Part, Parts
from remat.lint.code.split import Cut, Piece, Role, common, cut
from remat.lint.code.words import Words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

N_co = TypeVar("N_co", bound=cst.CSTNode, covariant=True)
T = TypeVar("T")
N = TypeVar("N", bound=cst.CSTNode)
_NO_NAMES: Environment = {}


@dataclass(frozen=True, slots=True)
class Place:
    """A parsed piece at its position. Stale: what stood here when it last parsed; its positions mean nothing now."""

    piece: Piece
    parsed: Parsed
    stale: bool
    names: Environment  # of the class that the piece is cut from


@dataclass(frozen=True, slots=True)
class At(Generic[N_co]):
    """A syntax node with the scope it stands in and the piece that holds it."""

    node: N_co
    scope: Scope | None
    place: Place


@dataclass(frozen=True, slots=True)
class Call:
    """A call with the dotted names it may call."""

    node: cst.Call
    scope: Scope | None
    place: Place
    names: Meanings

    def keyword(self, name: str) -> cst.Arg | None:
        return next((a for a in self.node.args if a.keyword is not None and a.keyword.value == name), None)

    def at(self, node: cst.CSTNode) -> At[cst.CSTNode]:
        """A node of this call, with where it stands."""
        return At(node, self.scope, self.place)

    @property
    def positional(self) -> list[cst.Arg]:
        """The arguments before any keyword or `**`, `*args` included."""
        return [a for a in self.node.args if a.keyword is None and a.star != "**"]

    @property
    def unpacks_mapping(self) -> bool:
        """Whether `**` may carry keywords that cannot be seen."""
        return any(a.star == "**" for a in self.node.args)


class Source:
    """One version of a file. Given the version before it, only what changed is parsed and what is half-typed is kept.

    `interest` None parses every piece. Raises SupersededError as soon as `is_current` says so.
    """

    def __init__(
        self,
        text: str,
        interest: Interest | None = None,
        before: Source | None = None,
        is_current: Callable[[], bool] = lambda: True,
    ) -> None:
        self.text, self._interest = text, interest
        edit = common(before.text, text) if before else (0, 0)
        self.cut: Cut = cut(text, before.cut if before else None)
        self.pieces = self.cut.pieces
        self.read: Parts = Parts(text, self.pieces, interest, before.read if before else None, edit, is_current)
        self.parts, self.keys = self.read.all, self.read.keys
        self.words: Words = Words(text, before.words if before else None, edit)
        self._name(before)
        self._parse_users_of_aliases(before)
        self._answers: dict[object, object] = {}
        self.on_demand: dict[Key, Parsed | None] = {}
        if before:
            self.on_demand = {k: v for k, v in before.on_demand.items() if k in self.read.skipped}

    def _name(self, before: Source | None) -> None:
        """Merge what the pieces bind. Equal environments stay the same object, so that resolved calls stay cached."""
        module: Environment = environment((q.names for p in self.parts for q in p.parsed if q.names), {})
        self.module: Environment = before.module if before and before.module == module else module
        same_module = before is not None and self.module is before.module
        old = {id(q): (env, read) for env, _, read in (before.groups if before else ()) for q in read}
        groups: list[list[Part]] = []
        for part in self.parts:
            role = part.piece.role
            if role is Role.MEMBER and groups:
                groups[-1].append(part)
            elif role is not Role.STATEMENT:
                groups.append([part])
        self.groups: list[tuple[Environment, list[Part], list[Parsed]]] = []  # a class cut into pieces each
        for group in groups:
            read = [q for part in group for q in part.parsed]
            known, with_these = next((old[id(q)] for q in read if id(q) in old), (_NO_NAMES, None))
            if read and not (same_module and with_these == read):
                names: Environment = environment((q.class_names for q in read), self.module)
                known = known if with_these and same_module and known == names else names
            self.groups.append((known, group, read))

    def _parse_users_of_aliases(self, before: Source | None) -> None:
        """Parse skipped pieces that use an alias: `ckpt(…)` where `checkpoint` was imported as `ckpt`."""
        if self._interest is None:
            return
        known: set[str] = set()
        while aliases := self._aliases(self._interest) - known:
            known |= aliases
            word = re.compile(r"\b(?:" + "|".join(map(re.escape, sorted(aliases))) + r")\b")
            more = False
            for i, part in enumerate(self.parts):
                key = self.keys[i]
                if part.skipped and word.search(key[0]):
                    parsed = self.read.parse(key, before.read if before else None)
                    self.parts[i] = Part(part.piece, (parsed,) if parsed else (), stale=parsed is None)
                    more = True
            if more:
                self._name(before)

    def _aliases(self, interest: Interest) -> set[str]:
        environments = [self.module, *(names for names, _, read in self.groups if read)]
        return {
            name
            for names in environments
            for name, meant in names.items()
            if any(m.removeprefix(PARTIAL) in interest.targets for m in meant) and not interest.words.search(name)
        }

    @cached_property
    def complete(self) -> bool:
        """Whether nothing is missing: each piece parses, or its last good version stands in for it."""
        return all(part.parsed or part.skipped for part in self.parts)

    def once(self, question: Callable[[Source], T]) -> T:
        """What `question` answers about this version of the text; asked once, whichever rules want to know."""
        if question not in self._answers:
            self._answers[question] = question(self)
        return cast("T", self._answers[question])

    @cached_property
    def places(self) -> list[Place]:
        """Every parsed piece, in source order."""
        return [
            Place(part.piece, parsed, part.stale, self._names_by_piece.get(id(part.piece), _NO_NAMES))
            for part in self.parts
            for parsed in part.parsed
        ]

    @cached_property
    def _calls(self) -> list[tuple[Place, CallsByName]]:
        return [(place, place.parsed.by_name(self.module, place.names)) for place in self.places]

    def calls(self, *names: str) -> Iterator[Call]:
        """The calls that may call any of these dotted names, each once."""
        for place, found in self._calls:
            seen: set[int] = set()
            for name in names:
                for node, scope, meant in found.get(name, ()):
                    if id(node) not in seen:
                        seen.add(id(node))
                        yield Call(node, scope, place, meant)

    def nodes(self, kind: type[N]) -> Iterator[At[N]]:
        """The nodes of an indexed type (see `parsed`) in every parsed piece."""
        for place in self.places:
            for node, scope in place.parsed.nodes.get(kind, ()):
                yield At(cast("N", node), scope, place)

    def meanings(self, expression: cst.CSTNode, scope: Scope | None, place: Place) -> Meanings:
        return meanings(expression, scope, self.module, place.names)

    def span(self, place: Place, node: cst.CSTNode) -> Span | None:
        """Where `node` lies in this text; None in a stale piece and where libcst loses characters."""
        found = None if place.stale else place.parsed.spans.get(id(node))
        if found is None:
            return None
        shift = place.piece.start - place.parsed.prefix
        return Span(found[0] + shift, found[1] + shift)

    def places_of(self, part: Part) -> list[Place]:
        """The parse of a piece, even of one without any trigger word: a rule asks about its whole class."""
        if not part.skipped:
            return self._places_by_piece.get(id(part.piece), [])
        key = self.read.key(part.piece)
        if key not in self.on_demand:
            self.on_demand[key] = parse(key)
        parsed = self.on_demand[key]
        names = self._names_by_piece.get(id(part.piece), _NO_NAMES)
        return [Place(part.piece, parsed, stale=False, names=names)] if parsed else []

    @cached_property
    def _places_by_piece(self) -> dict[int, list[Place]]:
        found: dict[int, list[Place]] = {}
        for place in self.places:
            found.setdefault(id(place.piece), []).append(place)
        return found

    @cached_property
    def _names_by_piece(self) -> dict[int, Environment]:
        """Piece id to the names of the class that the piece is cut from."""
        return {id(part.piece): names for names, parts, _ in self.groups for part in parts}
