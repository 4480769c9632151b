"""What a kind of failure looks like, as data: a new kind is a new value, never new control flow."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from remat.diagnose.report import Missing

Facts = dict[str, str]


class Role(Enum):
    """Whether this failure begins things, or is what a rank says that was left alone by another."""

    INITIATING = "initiating"
    WAITING = "waiting"


@dataclass(frozen=True, slots=True)
class Noticed:
    """A line that means something by itself: a launcher's, a kernel's, a watchdog's."""

    name: str
    rank: int | None
    host: str
    line: int
    facts: Facts
    time: str = ""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a signature may look at before it claims a failure."""

    facts: Facts
    text: str
    frames: str  # "path:function" of every frame, one a line, outermost first
    notices: Mapping[str, tuple[Noticed, ...]]


def as_matched(seen: Seen) -> Facts | None:
    return seen.facts


@dataclass(frozen=True, slots=True)
class Signature:
    """
    One kind of failure.

    `words`: one of them must be in the text before `pattern` is tried; its named groups are the facts.
    `cause`, `fix`, `verify` are sentences with {facts}. `read` may add facts, or return None: not this kind after all.
    `weight`: 0 a wrapper or a type alone, 1 a text with a finer kind beside it, 2 a text that says it all.
    """

    id: str
    words: tuple[str, ...]
    pattern: str
    cause: str
    fix: str
    verify: str
    role: Role = Role.INITIATING
    weight: int = 2
    frames: str = ""  # a regular expression that some "path:function" must match
    read: Callable[[Seen], Facts | None] = as_matched
    asks: tuple[Missing, ...] = ()
    rules: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    bare: bool = False  # the text means the same on a line outside a traceback
    asynchronous: bool = False  # raised later than it happened: the traceback's place proves nothing
    finished: bool = False  # a stop that is no failure
    runnable: bool = False  # `verify` is a shell command that runs as it stands
    extra: Mapping[str, str] = field(default_factory=dict)  # facts where the pattern's group matched nothing
