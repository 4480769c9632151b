"""How a file names something it may have imported, and the edit that imports it where it has not."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from remat.lint.edits import insert, newline_of

if TYPE_CHECKING:
    from remat.finding import Edit
    from remat.lint.source import Source

_IMPORT = re.compile(r"(?:import|from)[ \t]+(?!__future__\b)")


def spelling(source: Source, module: str, name: str) -> str | None:
    """How this file's top level spells `module.name`; None where it imports neither."""
    for bound, meant in sorted(source.module.items()):
        if meant == {f"{module}.{name}"}:
            return bound
    for bound, meant in sorted(source.module.items()):
        if meant == {module}:
            return f"{bound}.{name}"
    return None


def import_edit(source: Source, module: str) -> Edit | None:
    """`import module` on a line of its own before the file's first import; None where there is none."""
    for piece in source.pieces:
        if _IMPORT.match(source.text, piece.start):
            return insert(piece.start, f"import {module}{newline_of(source.text, piece.start)}")
    return None
