"""One edit between two versions of a text."""

from __future__ import annotations

from remat.finding import Edit, Span
from remat.lint.code.split import common


def one_edit(before: str, after: str) -> Edit:
    """From the first character that differs to the last one."""
    head, tail = common(before, after)
    return Edit(Span(head, len(before) - tail), after[head : len(after) - tail])
