"""What every engine reports: plain values, offsets in code points, nothing that belongs to an editor."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Severity(Enum):
    ERROR = "error"
    WARNING = "warning"
    INFO = "info"
    HINT = "hint"


@dataclass(frozen=True, slots=True)
class Span:
    """A half-open range of code-point offsets in one text."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Edit:
    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class Fix:
    """Edits that repair one finding.

    `safe`: a program whose step runs and is right today still runs and is right afterwards. Every other fix is offered
    one at a time, never by "fix all".
    """

    title: str
    edits: tuple[Edit, ...]
    safe: bool = False

    def apply(self, text: str) -> str:
        return apply_edits(text, self.edits)


@dataclass(frozen=True, slots=True)
class Finding:
    """One claim about the lines it stands on. `rule` is the rule's name: also its file, its code and its docs page."""

    rule: str
    span: Span
    message: str
    severity: Severity
    fix: Fix | None = None


def apply_edits(text: str, edits: tuple[Edit, ...]) -> str:
    """`text` with non-overlapping `edits` made; insertions at one place keep their order."""
    parts, at = [], 0
    for edit in sorted(edits, key=lambda e: (e.span.start, e.span.end)):
        parts += [text[at : edit.span.start], edit.text]
        at = edit.span.end
    return "".join([*parts, text[at:]])
