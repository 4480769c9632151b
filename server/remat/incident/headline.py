"""The one sentence that a reader sees first: what happened, or that nothing did."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from remat.diagnose.report import Report

_MOST = 200
_SAID = " The log says: "
_SENTENCE = re.compile(r"[.!?] (?=[A-Z])")
_CLAUSE = re.compile(r"[:;,] ")


def headline(report: Report) -> str:
    """The cause in its first sentence, with the rank it began on."""
    if report.cause is None:
        return "It failed, and the log does not say why" if report.failed else "No failure is shown in this log"
    first = _first(report.cause.summary.split(_SAID)[0])
    rank = report.initiating_rank
    return first if rank is None or f"ank {rank}" in first else f"Rank {rank}: {first}"


def _first(text: str) -> str:
    end = _SENTENCE.search(text)
    sentence = (text[: end.start()] if end else text).rstrip(".: ")
    if len(sentence) <= _MOST:
        return sentence
    clauses = [sentence[: match.start()] for match in _CLAUSE.finditer(sentence, _MOST // 2, _MOST)]
    whole = [clause for clause in clauses if clause.count("(") == clause.count(")")]
    return whole[-1] if whole else f"{sentence[: _MOST - 1].rstrip()}…"
