"""Makes the fixes of a text's findings, again and again until none is left; never breaks a text that compiled."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

from remat.finding import Finding, Fix, Span, apply_edits
from remat.links import REPORT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_ROUNDS = 100  # findings whose fixes touch wait for the next round; far fewer rounds are needed in practice


@dataclass(frozen=True, slots=True)
class Repaired:
    """A text with its fixes made. `made` counts them; `refused` says why one was not made, a fault of ours."""

    text: str
    made: int
    left: tuple[Finding, ...]
    refused: tuple[str, ...] = ()


def repair(text: str, check: Callable[[str], Sequence[Finding]], *, unsafe: bool) -> Repaired:
    """Make every safe fix, and with `unsafe` every fix. The result compiles if `text` did, and is stable."""
    original, compiled = text, compiles(text)
    findings = check(text)
    first, made = findings, 0
    for _ in range(_ROUNDS):
        chosen = apart(f for f in findings if f.fix and f.fix.edits and (f.fix.safe or unsafe))
        if not chosen:
            return Repaired(text, made, tuple(findings))
        after = _applied(text, chosen)
        if compiled and not compiles(after):
            return _without_breaking(text, chosen, made, check)
        text, made = after, made + len(chosen)
        findings = check(text)
    why = f"its fixes did not settle after {_ROUNDS} rounds ({_names(findings)}); nothing was changed"
    return Repaired(original, 0, tuple(first), (why,))


def apart(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings whose fixes do not touch one another, the earlier one first where two would."""
    chosen: list[Finding] = []
    taken: list[Span] = []
    for finding in findings:
        spans = [edit.span for edit in _fix(finding).edits]
        if not any(a.start <= b.end and b.start <= a.end for a in spans for b in taken):
            chosen.append(finding)
            taken += spans
    return chosen


def compiles(text: str) -> bool:
    """Tell whether Python takes the text, in this interpreter's version of the language."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, "<text>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        return False
    return True


def _without_breaking(
    text: str, chosen: Sequence[Finding], made: int, check: Callable[[str], Sequence[Finding]]
) -> Repaired:
    good = [finding for finding in chosen if compiles(_applied(text, [finding]))]
    bad = [finding for finding in chosen if finding not in good]
    after = _applied(text, good)
    if not compiles(after):
        good, bad, after = [], list(chosen), text
    why = f"a fix of {_names(bad)} would have made it invalid Python and was left out; {REPORT}"
    return Repaired(after, made + len(good), tuple(check(after)), (why,))


def _applied(text: str, findings: Iterable[Finding]) -> str:
    return apply_edits(text, tuple(edit for finding in findings for edit in _fix(finding).edits))


def _fix(finding: Finding) -> Fix:
    if finding.fix is None:
        raise ValueError(f"{finding.rule} has no fix here")
    return finding.fix


def _names(findings: Iterable[Finding]) -> str:
    return ", ".join(sorted({finding.rule for finding in findings}))
