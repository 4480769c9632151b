"""`# remat: ignore[rule-name]`: what it silences, and what silences nothing."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from remat.finding import Edit, Finding, Fix, Severity, Span
from remat.lint.code.split import split
from remat.lint.code.strings import STRING, comments, in_string
from remat.lint.edits import indent_at, line_feeds, newline_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from remat.lint.code.split import Piece

UNUSED = "unused-suppression"
MARK = "remat: ignore"
_BRACKET = re.compile(rf"(?P<open>[(\[{{])|(?P<close>[)\]}}])|#[^\n]*|{STRING}", re.DOTALL)
_COMMENT = re.compile(r"#\s*remat:\s*ignore\b(?:\[(?P<names>[^\]#]*)\])?")


@dataclass(frozen=True, slots=True)
class Suppression:
    """`line`: the line it speaks of, 0-based. `span`: the part of the comment that says so."""

    line: int
    span: Span
    names: tuple[str, ...]


class Lines:
    """Offsets to 0-based lines. A line ends at LF or CRLF only, as for Python and for every editor."""

    def __init__(self, text: str) -> None:
        self.starts = [0, *(m.end() for m in re.finditer("\n", text))]

    def of(self, offset: int) -> int:
        return bisect_right(self.starts, offset) - 1


def suppressions(text: str, pieces: Sequence[Piece]) -> list[Suppression]:
    """Those in real comments; a string that only holds the words does not count."""
    if MARK not in text and not _COMMENT.search(text):
        return []
    lines = Lines(text)
    found: list[Suppression] = []
    alone: dict[int, int] = {}
    for piece in pieces:
        if "ignore" not in text[piece.start : piece.end]:
            continue
        for at, comment in comments(text, piece.start, piece.end):
            if match := _COMMENT.search(comment):
                names = tuple(filter(None, (n.strip() for n in (match["names"] or "").split(","))))
                found.append(
                    Suppression(_line_meant(text, lines, at, alone), Span(at + match.start(), at + match.end()), names)
                )
    return found


def _line_meant(text: str, lines: Lines, comment: int, alone: dict[int, int]) -> int:
    """The comment's own line; for a comment that stands alone, the next line that holds code, noted in `alone`."""
    line = lines.of(comment)
    if text[lines.starts[line] : comment].strip():
        return line
    if line in alone:
        return alone[line]
    passed = [line]
    meant = line
    for later in range(line + 1, len(lines.starts)):
        end = lines.starts[later + 1] if later + 1 < len(lines.starts) else len(text)
        content = text[lines.starts[later] : end].strip()
        if content and not content.startswith("#"):
            meant = later
            break
        passed.append(later)
    alone.update(dict.fromkeys(passed, meant))
    return alone[line]


def apply(
    findings: Iterable[Finding], text: str, pieces: Sequence[Piece], known: frozenset[str], judged: frozenset[str]
) -> list[Finding]:
    """The findings that nothing silences, and one for each suppression that silences nothing.

    `known`: all rule names. `judged`: the rules that ran; a suppression of another one may be needed elsewhere.
    """
    marks = suppressions(text, pieces)
    if not marks:
        return list(findings)
    lines = Lines(text)
    by_line: dict[int, list[Suppression]] = {}
    for mark in marks:
        by_line.setdefault(mark.line, []).append(mark)
    kept: list[Finding] = []
    used: set[tuple[Span, str]] = set()
    for finding in findings:
        span = finding.span
        ends = (span.start, max(span.start, span.end - 1), _end_of_call(text, span))
        here = {lines.of(at) for at in ends}
        hits = [m for line in here for m in by_line.get(line, ()) if finding.rule in m.names]
        used.update((m.span, finding.rule) for m in hits)
        if not hits:
            kept.append(finding)
    return kept + [f for mark in marks for f in _unused(mark, text, used, known, judged)]


def _end_of_call(text: str, span: Span) -> int:
    """The bracket that closes what opens right behind a finding: a comment may follow the whole call. Else its end."""
    depth = 0
    for match in _BRACKET.finditer(text, span.start):
        behind = match.start() >= span.end
        if behind and not depth and (not match["open"] or text[span.end : match.start()].strip()):
            break
        depth += 1 if match["open"] else -1 if match["close"] else 0
        if depth < 0:
            break
        if behind and not depth:
            return match.start()
    return max(span.start, span.end - 1)


def _unused(
    mark: Suppression, text: str, used: set[tuple[Span, str]], known: frozenset[str], judged: frozenset[str]
) -> Iterator[Finding]:
    useless = [n for n in mark.names if (n in judged and (mark.span, n) not in used) or n not in known]
    if mark.names and not useless:
        return
    kept = [n for n in mark.names if n not in useless]
    edit = Edit(mark.span, f"# remat: ignore[{', '.join(kept)}]") if kept else _removal(mark, text)
    fix = Fix("Remove the unused suppression", (edit,), safe=True) if mark.names else None
    yield Finding(UNUSED, mark.span, _why_unused(mark, useless, known), Severity.HINT, fix)


def _why_unused(mark: Suppression, useless: list[str], known: frozenset[str]) -> str:
    if not mark.names:
        return "`# remat: ignore` names no rule and silences nothing; write `# remat: ignore[rule-name]`"
    unknown = [n for n in useless if n not in known]
    if unknown:
        near = get_close_matches(unknown[0], sorted(known), 1)
        return f"there is no rule `{unknown[0]}`" + (f"; did you mean `{near[0]}`?" if near else "")
    return f"nothing to suppress here: `{'`, `'.join(useless)}` reports nothing on this line"


def _removal(mark: Suppression, text: str) -> Edit:
    """Take the comment away with the blanks before it; with its whole line where nothing else stands there."""
    start, end = mark.span.start, mark.span.end
    rest = re.compile(r"[ \t]*(?=\r?\n|\Z)").match(text, end)
    if rest is None:  # the comment goes on: keep its mark and the other words
        return Edit(Span(start, end), "#")
    while start and text[start - 1] in " \t":
        start -= 1
    if start and text[start - 1] == "\n":
        start = start - 2 if text[start - 2 : start] == "\r\n" else start - 1
    return Edit(Span(start, rest.end()), "")


def suppress_edit(text: str, finding: Finding) -> Edit | None:
    """The edit that silences `finding` on its line; None where no comment can stand there."""
    text = line_feeds(text)
    start = text.rfind("\n", 0, finding.span.start) + 1
    end = text.find("\n", finding.span.start)
    end = len(text) if end < 0 else end - (text[end - 1] == "\r")
    piece = next((p for p in split(text) if p.start <= finding.span.start < p.end), None)
    if piece is None:
        return None
    for at, comment in comments(text, piece.start, piece.end):
        if start <= at < end and (present := _COMMENT.search(comment)) and present["names"]:
            return Edit(Span(at + present.end("names"), at + present.end("names")), f", {finding.rule}")
    if text[end - 1] != "\\" and not in_string(text, piece.start, end):
        return Edit(Span(end, end), f"  # {MARK}[{finding.rule}]")
    if text[:start].rstrip("\r\n").endswith("\\") or in_string(text, piece.start, start):
        return None
    comment = f"{indent_at(text, start)}# {MARK}[{finding.rule}]{newline_of(text, start)}"
    return Edit(Span(start, start), comment)
