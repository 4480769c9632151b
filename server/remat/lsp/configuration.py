"""Problems in a pyproject.toml as diagnostics on the line that has them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lsprotocol.types import Diagnostic, DiagnosticSeverity, PositionEncodingKind

from remat.finding import Span
from remat.lsp.diagnostics import SOURCE
from remat.lsp.positions import Lines, split_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from remat.settings import Problem

_LINE = re.compile(r"\bline (\d+)")
_HEADER = re.compile(r"(?m)^[ \t]*\[[ \t]*tool[ \t]*\.[ \t]*remat\b[^\]\n]*\]")


def configuration_diagnostics(
    text: str, problems: Sequence[Problem], encoding: PositionEncodingKind | str
) -> list[Diagnostic]:
    places = Lines(split_lines(text), encoding)
    return [
        Diagnostic(
            range=places.range(_span(text, places, problem)),
            message=f"{problem.key}: {problem.message}" if problem.key else problem.message,
            severity=DiagnosticSeverity.Error if not problem.key else DiagnosticSeverity.Warning,
            code="tool.remat",
            source=SOURCE,
        )
        for problem in problems
    ]


def _span(text: str, places: Lines, problem: Problem) -> Span:
    """The key, its table's header where the key is spelled unusually, or the line that the TOML error names."""
    if not problem.key:
        named = _LINE.search(problem.message)
        line = min(int(named[1]), len(places.lines)) - 1 if named else 0
        start = places.starts[max(line, 0)]
        return Span(start, start + len(places.lines[max(line, 0)].rstrip("\r\n")))
    header = _HEADER.search(text)
    name = re.escape(problem.key.rpartition(".")[2])
    for pattern in (rf"(?m)^[ \t]*[\w.\"'-]*?\b({name})[\"']?[ \t]*=", rf"\b({name})\b"):
        if found := re.compile(pattern).search(text, header.start() if header else 0):
            return Span(found.start(1), found.end(1))
    return Span(header.start(), header.end()) if header else Span(0, 0)
