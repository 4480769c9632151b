"""The top-level classes of a file by name, as text: enough to judge what a layer is without parsing it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from remat.lint.code.split import Role

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from remat.lint.code.parts import Part
    from remat.lint.code.source import Place, Source

ABOUT_CHECKPOINTING = re.compile(r"(?i)checkpoint|ckpt|with_cp\b|\bremat|(?<![a-z])recompute")
_CHECKPOINTS = re.compile(
    r"(?<!def )\b(?!\w*(?:load|save|resume|restore|from))(?:\w*checkpoint|\w*ckpt|_gradient_checkpointing_func)\("
)
_HEAD = re.compile(r"(?m)^class[ \t]+(\w+)[ \t]*(?:\(([^()]*(?:\([^()]*\)[^()]*)*)\))?[ \t]*:")
_CONSTRUCTED = re.compile(r"\b([A-Z]\w*)\(")
_PLAIN_BASE = re.compile(r"(?:(?:torch\.)?nn\.)?Module$|object$|ABC$|(?:abc\.)ABC$")
_CLASSES_REMEMBERED = 1024  # an edit changes one class: what the others' texts say is known
_DEPTH = 4  # block, attention, its projections: what a layer is made of


@dataclass(frozen=True, slots=True)
class Klass:
    """A class and the pieces it is cut into."""

    name: str
    bases: tuple[str, ...]  # as written
    text: str
    parts: tuple[Part, ...]

    @property
    def made(self) -> frozenset[str]:
        """The capitalised names that it calls: what it is made of."""
        return _made(self.text) - {self.name}

    @property
    def speaks_of_checkpointing(self) -> bool:
        return _speaks_of_checkpointing(self.text)

    @property
    def checkpoints_something(self) -> bool:
        return self.speaks_of_checkpointing and _CHECKPOINTS.search(self.text) is not None

    def places(self, source: Source) -> list[Place]:
        """Its pieces, parsed now if they were not before."""
        return [place for part in self.parts for place in source.places_of(part)]


@lru_cache(_CLASSES_REMEMBERED)
def _made(text: str) -> frozenset[str]:
    return frozenset(_CONSTRUCTED.findall(text))


@lru_cache(_CLASSES_REMEMBERED)
def _speaks_of_checkpointing(text: str) -> bool:
    return ABOUT_CHECKPOINTING.search(text) is not None


def classes(source: Source) -> dict[str, Klass]:
    """Every class at the top level, in source order. Of two with one name the later one counts."""
    groups: list[tuple[list[Part], list[str]]] = []
    member: tuple[list[Part], list[str]] | None = None  # where one belongs
    for part, (text, _) in zip(source.parts, source.keys, strict=True):
        if part.piece.role is Role.MEMBER:
            if member is not None:
                member[0].append(part)
                member[1].append(text)
        elif text.startswith(("class", "@")):
            groups.append(member := ([part], [text]))
        else:
            member = None
    found: dict[str, Klass] = {}
    for parts, texts in groups:
        known = _read(tuple(texts))
        if known is not None:
            found[known[0]] = Klass(*known, tuple(parts))
    return found


@lru_cache(_CLASSES_REMEMBERED)
def _read(texts: tuple[str, ...]) -> tuple[str, tuple[str, ...], str] | None:
    """Name, bases and text of the class that these pieces make up; None for anything else."""
    text = "".join(texts)
    head = _HEAD.search(text)
    if head is None:
        return None
    bases = (b.strip() for b in (head[2] or "").split(","))
    return head[1], tuple(b for b in bases if b and "=" not in b), text


def ancestry(klass: Klass, known: Mapping[str, Klass]) -> Iterator[Klass]:
    """The class and those of its bases, and of theirs, that are in the file."""
    stack, seen = [klass], set[str]()
    while stack:
        at = stack.pop()
        if at.name not in seen:
            seen.add(at.name)
            yield at
            stack.extend(known[b] for b in at.bases if b in known)


def may_checkpoint(klass: Klass, known: Mapping[str, Klass], depth: int = _DEPTH) -> bool:
    """Whether its forward could checkpoint by itself: it says so somewhere, or inherits from what is not seen."""
    for at in ancestry(klass, known):
        if at.speaks_of_checkpointing or any(b not in known and not _PLAIN_BASE.search(b) for b in at.bases):
            return True
        if depth and any(may_checkpoint(known[n], known, depth - 1) for n in sorted(at.made) if n in known):
            return True
    return False


def parts(klass: Klass, known: Mapping[str, Klass]) -> set[str]:
    """The names of all the classes of the file that this one is made of."""
    found, stack = set[str](), [klass]
    while stack:
        for name in stack.pop().made & known.keys():
            if name not in found:
                found.add(name)
                stack.append(known[name])
    return found
