"""Which packages a file is in, and what it imports: by what name it is found."""

from __future__ import annotations

import ast
import importlib.util
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def read(path: Path) -> str:
    return importlib.util.decode_source(path.read_bytes())


def text_of(path: Path) -> str:
    """The same of a file that is only looked at: one that can't be read says nothing."""
    try:
        return read(path)
    except (OSError, SyntaxError, ValueError):
        return ""


def module_name(path: Path) -> str:
    """Return the dotted name by which a file is imported: its packages' names in front, where it is in some."""
    parts = [] if path.name == "__init__.py" else [path.stem]
    return ".".join([*(folder.name for folder in reversed(packages(path))), *parts])


def packages(path: Path) -> list[Path]:
    """Return the package folders around a file, the innermost first.

    A folder without `__init__.py` is one too where the file imports from beside itself with a leading dot, or by the
    name of a folder around it.
    """
    found: list[Path] = []
    folder = path.parent
    dots, top = _most_dots(path), _named_package(path)
    while (folder / "__init__.py").is_file() or len(found) < dots or (top is not None and folder.is_relative_to(top)):
        found.append(folder)
        if folder == folder.parent:
            break
        folder = folder.parent
    return found


def _most_dots(path: Path) -> int:
    return max((node.level for node in imports(path) if isinstance(node, ast.ImportFrom)), default=0)


def _named_package(path: Path) -> Path | None:
    """Return the folder around a file by whose name it imports what else is in it."""
    for node in imports(path):
        first, _, rest = ((node.module or "") if isinstance(node, ast.ImportFrom) and not node.level else "").partition(
            "."
        )
        for folder in path.parents if rest else ():
            inner = folder / rest.split(".")[0]
            if folder.name == first and (inner.is_dir() or inner.with_suffix(".py").is_file()):
                return folder
    return None


def imports(path: Path) -> list[ast.Import | ast.ImportFrom]:
    """Return the import statements of a file, wherever they stand; none of one that can't be read."""
    try:
        tree = ast.parse(read(path))
    except (SyntaxError, UnicodeDecodeError, ValueError):
        return []
    return [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
