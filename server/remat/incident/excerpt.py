"""The lines of a log that prove something, with those around them, made harmless to show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from remat.diagnose.log import pieces
from remat.incident.harmless import harmless

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

WHOLE = 300  # a log with no more lines is shown as it is
_AROUND = 3
_MOST = 400
_MOST_OF_ONE = 60  # lines shown for a single claim: a rank may repeat itself for pages
_WIDEST = 2000


@dataclass(frozen=True, slots=True)
class Shown:
    """A line, counted from 1. `proves`: a claim rests on it."""

    number: int
    text: str
    proves: bool


def excerpt(lines: Iterable[str], claims: Iterable[Collection[int]], count: int) -> list[Shown]:
    """Of a log with `count` lines those in `claims`, each a collection of line numbers, and some around them."""
    proving: set[int] = set()
    for claim in claims:
        proving.update(sorted(claim)[:_MOST_OF_ONE])
    wanted = set(range(1, count + 1)) if count <= WHOLE else _around(sorted(proving), count)
    if not wanted:
        wanted = set(range(max(1, count - 2 * _AROUND), count + 1))
    return [Shown(number, text, number in proving) for number, text in _picked(lines, wanted)]


def seen(line: str) -> str:
    """What a person saw of a line last: no colours, no other control sequence, not endlessly long."""
    text = harmless((pieces(line) or [""])[-1])
    return text if len(text) <= _WIDEST else f"{text[:_WIDEST]}… ({len(text) - _WIDEST} more characters)"


def _around(proving: list[int], count: int) -> set[int]:
    wanted = set(proving[:_MOST])
    for number in proving:
        if len(wanted) >= _MOST:
            break
        wanted.update(range(max(1, number - _AROUND), min(count, number + _AROUND) + 1))
    return wanted


def _picked(lines: Iterable[str], wanted: set[int]) -> Iterator[tuple[int, str]]:
    last = max(wanted)
    for number, line in enumerate(lines, 1):
        if number in wanted:
            yield number, seen(line)
        if number == last:
            return
