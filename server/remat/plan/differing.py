"""Edits between two versions of a text."""

from __future__ import annotations

from difflib import SequenceMatcher
from itertools import accumulate

from remat.finding import Edit, Span
from remat.lint.code.split import common


def one_edit(before: str, after: str) -> Edit:
    """From the first character that differs to the last one."""
    head, tail = common(before, after)
    return Edit(Span(head, len(before) - tail), after[head : len(after) - tail])


def line_edits(before: str, after: str) -> tuple[Edit, ...]:
    """One for each run of lines that differs."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    starts = [0, *accumulate(map(len, old))]
    changes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return tuple(
        Edit(Span(starts[first], starts[last]), "".join(new[begin:end]))
        for kind, first, last, begin, end in changes
        if kind != "equal"
    )
