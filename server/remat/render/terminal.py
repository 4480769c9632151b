"""The formats that people read: one line per finding, or the finding with its source line, caret and fix."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from remat.finding import Severity
from remat.links import rule_url
from remat.render.report import Lines, Report

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from remat.finding import Finding, Fix, Span

_COLOURS = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow", Severity.INFO: "bold blue"}
_SPACE = re.compile(r"\s*")
_WIDTH = 140  # cells of a source line that are shown; a longer line is cut around the finding
_MOST_LINES = 6  # of one finding; a longer one is shown with its middle left out


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of text in one style. `style` is what a terminal makes of it; plain output is the texts joined."""

    text: str
    style: str = ""


def concise(reports: Iterable[Report]) -> Iterator[Piece]:
    for report, lines in _with_lines(reports):
        for finding in report.findings:
            yield from _place(report, lines, finding)
            yield Piece(": ")
            yield from _claim(finding)
            yield Piece(f" {visible(finding.message)}\n")


def full(reports: Iterable[Report]) -> Iterator[Piece]:
    for report, lines in _with_lines(reports):
        for finding in report.findings:
            yield from _place(report, lines, finding)
            yield Piece(" ")
            yield from _claim(finding)
            yield Piece(f" — {visible(finding.message)}\n")
            yield from _excerpt(lines, finding)
            yield Piece("\n")


@dataclass(frozen=True, slots=True)
class Read:
    """How many files were read, how many more could not be, and how many of the former were not read as a whole."""

    files: int
    unread: int = 0
    partly: int = 0

    def __str__(self) -> str:
        notes = [f"{self.partly} of them not as a whole"] if self.partly else []
        notes += [f"{self.unread} more could not be read"] if self.unread else []
        what = f"what was read of {counted(self.files, 'file')}" if self.partly else counted(self.files, "file")
        return f"in {what}" + (f" ({'; '.join(notes)})" if notes else "")


def summary(reports: Sequence[Report], read: Read, versions: str) -> str:
    """Say in one line how many problems of which kind there are, for which versions, and how many a fix would clear."""
    findings = [finding for report in reports for finding in report.findings]
    where = str(read)
    if not findings:
        return f"No problems {where}."
    held = f" for {versions}" if versions else ""
    by_severity = Counter(finding.severity for finding in findings)
    kinds = ", ".join(_counted_kind(by_severity[kind], kind) for kind in Severity if by_severity[kind])
    safe = sum(1 for finding in findings if finding.fix and finding.fix.safe)
    unsafe = sum(1 for finding in findings if finding.fix and not finding.fix.safe)
    parts = [f"Found {counted(len(findings), 'problem')} ({kinds}) {where}{held}"]
    if safe:
        parts.append(f"{safe} fixable with `remat fix`" + (f", {unsafe} more with `--unsafe-fixes`" if unsafe else ""))
    elif unsafe:
        parts.append(f"{unsafe} fixable with `remat fix --unsafe-fixes`")
    return "; ".join(parts) + "."


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def visible(text: str) -> str:
    """Show control characters as their escapes: source text must not be able to drive the terminal."""
    return "".join(c if c.isprintable() or c == " " else c.encode("unicode_escape").decode() for c in text)


def _counted_kind(number: int, kind: Severity) -> str:
    return f"{number} info" if kind is Severity.INFO else counted(number, kind.value)


def _with_lines(reports: Iterable[Report]) -> Iterator[tuple[Report, Lines]]:
    return ((report, Lines.of(report.text)) for report in reports if report.findings)


def _place(report: Report, lines: Lines, finding: Finding) -> Iterator[Piece]:
    row, column = lines.position(finding.span.start)
    yield Piece(visible(report.shown), "bold")
    yield Piece(f":{row}:{column}", "cyan")


def _claim(finding: Finding) -> Iterator[Piece]:
    yield Piece(finding.severity.value, _COLOURS.get(finding.severity, "bold"))
    yield Piece(" ")
    yield Piece(finding.rule, f"bold link {rule_url(finding.rule)}")


def _excerpt(lines: Lines, finding: Finding) -> Iterator[Piece]:
    first, last = (lines.position(offset)[0] for offset in (finding.span.start, finding.span.end))
    if last > first and lines.starts[last - 1] == finding.span.end:  # it ends with a line's end
        last -= 1
    gutter = len(str(last)) + 1
    yield Piece(" " * gutter + "|\n", "dim")
    for row in _shown_rows(first, last):
        if row is None:
            yield Piece("." * (gutter - 1) + " |\n", "dim")
            continue
        text, marks = _marked(lines, row, finding.span)
        yield Piece(f"{row:>{gutter - 1}} | ", "dim")
        yield Piece(f"{text}\n")
        yield Piece(" " * gutter + "| ", "dim")
        yield Piece(f"{marks}\n", _COLOURS.get(finding.severity, "bold"))
    if finding.fix:
        yield from _help(finding.fix, gutter)


def _shown_rows(first: int, last: int) -> Iterator[int | None]:
    if last - first < _MOST_LINES:
        yield from range(first, last + 1)
    else:
        yield from range(first, first + _MOST_LINES - 3)
        yield None
        yield from (last - 1, last)


def _marked(lines: Lines, row: int, span: Span) -> tuple[str, str]:
    """Return a source line as shown, and the carets under what belongs to `span`, by the cells they fill."""
    begin, stop = lines.bounds(row)
    start, end = min(max(span.start, begin), stop), min(span.end, stop)
    if span.start < begin and (indentation := _SPACE.match(lines.text, begin, end)):
        start = indentation.end()
    left = max(begin, min(start - 20, stop - _WIDTH))
    right = min(stop, left + _WIDTH)
    pairs = ((left, start), (start, min(end, right)), (end, right))
    before, marked, after = (_cells(lines.text[a:b]) for a, b in pairs)
    head, tail = ("… " if left > begin else ""), (" …" if right < stop else "")
    return f"{head}{before}{marked}{after}{tail}", " " * width(head + before) + "^" * max(1, width(marked))


def _cells(text: str) -> str:
    return visible(text.replace("\t", "    "))


def width(text: str) -> int:
    """Count the terminal cells of a text: none for a combining mark, two for a wide character."""
    if text.isascii():
        return len(text)
    wide = sum(1 for c in text if unicodedata.east_asian_width(c) in "WF")
    return len(text) + wide - sum(1 for c in text if unicodedata.combining(c))


def _help(fix: Fix, gutter: int) -> Iterator[Piece]:
    yield Piece(" " * gutter + "= ", "dim")
    yield Piece("fix", "bold green")
    how = "`remat fix` makes it" if fix.safe else "unsafe: look at it first; `remat fix --unsafe-fixes` makes it"
    yield Piece(f": {visible(fix.title)} ({how})\n")
