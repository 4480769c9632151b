"""How a file names something it may have imported, and the edit that imports it where it has not."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from remat.lint.edits import insert, newline_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remat.finding import Edit
    from remat.lint.code.source import Source
    from remat.lint.code.split import Piece

_IMPORT = re.compile(r"(?:import[ \t]+(?P<module>[\w.]+)|from[ \t]+(?!__future__\b))")


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
    """`import module`, sorted into the file's first imports; None where there are none."""
    text, first = source.text, list(_first_imports(source))
    later = next((p for p, name in first if name is None or name > module), None)
    earlier = next((p for p, _ in reversed(first) if later is None or p.start < later.start), None)
    if earlier and (later is None or "\n\n" in text[earlier.start : later.start].replace("\r", "")):
        end = earlier.start + len(text[earlier.start : earlier.end].rstrip())
        return insert(end, f"{newline_of(text, end)}import {module}")
    return insert(later.start, f"import {module}{newline_of(text, later.start)}") if later else None


def _first_imports(source: Source) -> Iterator[tuple[Piece, str | None]]:
    """The file's first run of imports, each with the module that a plain `import` names."""
    begun = False
    for piece in source.pieces:
        match = _IMPORT.match(source.text, piece.start)
        if match:
            begun = True
            yield piece, match["module"]
        elif begun:
            return
