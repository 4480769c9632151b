"""A checkpointing plan as an edit of the document that holds the model."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from remat.protocol import PlanAnswer

if TYPE_CHECKING:
    from remat.finding import Edit
    from remat.lint.rule import Context
    from remat.protocol import PlanParams

_FILE = re.compile(r"(?P<path>.+?\.py)(?::(?P<name>[^:/\\]+))?")
_LIBRARY = 'model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})\nmodel.train()'


@dataclass(frozen=True, slots=True)
class Prepared:
    """The edits of a text, with what is said about them once they are made."""

    edits: tuple[Edit, ...]
    answer: PlanAnswer


def file_of(params: PlanParams) -> Path | None:
    """The file that the target is in; None for a model that is named without one."""
    match = _FILE.fullmatch(params.target) if not params.target.startswith("hf:") else None
    return Path(params.folder, match["path"]) if match else None


def without_file() -> PlanAnswer:
    return PlanAnswer(applied=False, what="No file of yours makes this model", code=_LIBRARY)


def prepared(params: PlanParams, text: str, context: Context) -> Prepared | PlanAnswer:
    """The edits of the file's `text`, or why there are none."""
    from remat.plan.plan import Blocks, Place, Plan, Written  # noqa: PLC0415 - imports libcst, too slow for the start
    from remat.plan.write import write  # noqa: PLC0415

    match = _FILE.fullmatch(params.target)
    name = match["name"] if match else None
    place = Place(None, int(name)) if name and name.isdecimal() else Place(name)
    blocks = tuple(Blocks(one.path, one.count, one.of) for one in params.blocks)
    outcome = write(text, place, Plan(params.way, blocks), context)
    if not isinstance(outcome, Written):
        return PlanAnswer(applied=False, what=outcome.why, code=outcome.code)
    return Prepared(
        outcome.edits, PlanAnswer(applied=True, what=outcome.what, notes=outcome.notes, line=_line(text, outcome.edits))
    )


def _line(text: str, edits: tuple[Edit, ...]) -> int:
    """Where the change itself stands afterwards, from 1: an import comes before it."""
    last = max(edits, key=lambda edit: edit.span.start)
    above = [edit for edit in edits if edit.span.start < last.span.start]
    moved = sum(edit.text.count("\n") - text.count("\n", edit.span.start, edit.span.end) for edit in above)
    inside = len(last.text) - len(last.text.lstrip("\r\n"))
    return text.count("\n", 0, last.span.start) + moved + last.text.count("\n", 0, inside) + 1
