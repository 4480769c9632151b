"""Which findings of the linter explain a failure: those of the rules it names, in the code that its log names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from remat.diagnose.report import Report
    from remat.finding import Finding
    from remat.incident.code_paths import CodePaths, Named

_MOST = 6
_MOST_FILES = 20


@dataclass(frozen=True, slots=True)
class Explained:
    """A finding in the text of the file at `path`."""

    path: str
    text: str
    finding: Finding


def explained(
    report: Report,
    named: Iterable[tuple[int, Named]],
    code: CodePaths,
    look: Callable[[str], tuple[str, Sequence[Finding]] | None],
) -> list[Explained]:
    """
    The findings of the rules that `report` names, those at the lines the log names first.

    `named`: places of code with the lines of the log that name them. `look`: a file's text and findings.
    """
    rules = report.fix.rules if report.fix else ()
    lines: dict[str, set[int]] = {}
    for path, line in _places(report, named, code) if rules else ():
        if path in lines or len(lines) < _MOST_FILES:
            lines.setdefault(path, set()).add(line)
    found: list[tuple[bool, int, int, Explained]] = []
    for order, path in enumerate(lines):
        seen = look(path)
        if seen is None:
            continue
        text, findings = seen
        for finding in findings:
            if finding.rule in rules:
                elsewhere = not lines[path] & set(_lines_of(text, finding))
                found.append((elsewhere, order, finding.span.start, Explained(path, text, finding)))
    return [one for *_, one in sorted(found, key=lambda entry: entry[:3])][:_MOST]


def _places(report: Report, named: Iterable[tuple[int, Named]], code: CodePaths) -> list[tuple[str, int]]:
    """The places in the workspace: the report's own first, then those that stand nearest to the cause."""
    middle = report.cause.lines[-1] if report.cause and report.cause.lines else 0
    nearest = [place for _, place in sorted(named, key=lambda entry: abs(entry[0] - middle))]
    own = [(report.location.path, report.location.line)] if report.location else []
    found = ((code.find(path), line) for path, line in [*own, *((place.path, place.line) for place in nearest)])
    return list(dict.fromkeys((path, line) for path, line in found if path and code.inside(path)))


def _lines_of(text: str, finding: Finding) -> range:
    first = text.count("\n", 0, finding.span.start) + 1
    return range(first, first + text.count("\n", finding.span.start, finding.span.end) + 1)
