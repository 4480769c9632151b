"""What is to be checkpointed, and what came of writing it down: edits, or what a person has to write."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from remat.finding import Edit

_EVERY, _FIRST = re.compile(r"every-([1-9]\d*)"), re.compile(r"first-([1-9]\d*)")


@dataclass(frozen=True, slots=True)
class Blocks:
    """Modules of one list: `path` is where they stand, `decoder.layers.*`; `of` are there, `count` are checkpointed."""

    path: str
    count: int
    of: int


@dataclass(frozen=True, slots=True)
class Plan:
    """`way`: as in `Variant.checkpointing`. `blocks`: what that came to on this model, in the model's order."""

    way: str
    blocks: tuple[Blocks, ...]

    @property
    def every(self) -> int:
        """One block of so many; 1 for all of them."""
        found = _EVERY.fullmatch(self.way)
        return int(found[1]) if found else 1

    @property
    def first(self) -> int | None:
        found = _FIRST.fullmatch(self.way)
        return int(found[1]) if found else None


@dataclass(frozen=True, slots=True)
class Place:
    """Which model of a file: the class or variable `name`, or what is made on `line`, from 1; neither: its only one."""

    name: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """`what`: the change in one sentence. `notes`: what one has to know about it."""

    edits: tuple[Edit, ...]
    what: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ByHand:
    """`why` it is not written, and the `code` to write instead; empty where there is nothing to write."""

    why: str
    code: str = ""


Outcome: TypeAlias = "Written | ByHand"
