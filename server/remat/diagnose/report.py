"""What a diagnosis says: claims that point at lines of the log, and facts that are missing from it."""

from __future__ import annotations

from dataclasses import dataclass

Lines = tuple[int, ...]  # 1-based line numbers of the log, ascending


@dataclass(frozen=True, slots=True)
class Claim:
    """Something the log proves, by these lines."""

    id: str
    summary: str
    lines: Lines


@dataclass(frozen=True, slots=True)
class Collateral:
    """A rank that failed because another one did."""

    rank: int
    summary: str
    lines: Lines


@dataclass(frozen=True, slots=True)
class Missing:
    """A fact the log does not hold, why it matters, and the command that obtains it."""

    fact: str
    why: str
    how: str


@dataclass(frozen=True, slots=True)
class Cure:
    """What to change, and the lint rules whose quick fix does it."""

    summary: str
    rules: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Place:
    """A line of the user's code, named as the log names it."""

    path: str
    line: int


@dataclass(frozen=True, slots=True)
class Report:
    """The answer for one run. `decided`: the steps that settled the cause and the rank, each with its lines."""

    failed: bool
    cause: Claim | None = None
    initiating_rank: int | None = None
    collateral: tuple[Collateral, ...] = ()
    fix: Cure | None = None
    verify: str | None = None
    missing: tuple[Missing, ...] = ()
    also: tuple[Claim, ...] = ()
    location: Place | None = None
    decided: tuple[Claim, ...] = ()
