"""Which findings of the linter explain a failure: those of the rules it names, in the code that its log names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from remat.finding import Finding

_MOST = 6
_MOST_FILES = 20


@dataclass(frozen=True, slots=True)
class Explained:
    """A finding in the text of the file at `path`."""

    path: str
    text: str
    finding: Finding


def explained(
    rules: Collection[str],
    places: Iterable[tuple[str, int]],
    look: Callable[[str], tuple[str, Sequence[Finding]] | None],
) -> list[Explained]:
    """
    The findings of `rules`, those at the lines the log names first.

    `places`: files and lines, from 1, those nearest to the cause first. `look`: a file's text and findings.
    """
    lines: dict[str, set[int]] = {}
    for path, line in places:
        if path in lines or len(lines) < _MOST_FILES:
            lines.setdefault(path, set()).add(line)
    found: list[tuple[bool, int, int, Explained]] = []
    for order, path in enumerate(lines):
        seen = look(path) if rules else None
        if seen is None:
            continue
        text, findings = seen
        for finding in findings:
            if finding.rule in rules:
                elsewhere = not lines[path] & set(_lines_of(text, finding))
                found.append((elsewhere, order, finding.span.start, Explained(path, text, finding)))
    return [one for *_, one in sorted(found, key=lambda entry: entry[:3])][:_MOST]


def _lines_of(text: str, finding: Finding) -> range:
    first = text.count("\n", 0, finding.span.start) + 1
    return range(first, first + text.count("\n", finding.span.start, finding.span.end) + 1)
