"""The project that a file belongs to, as a list of folders from the file's own up to the project's root."""

# Paths are str here, as in the modules that ask for each folder of a tree.
# ruff: noqa: PTH110, PTH118, PTH120
from __future__ import annotations

import os

_MARKS = (".git", "pyproject.toml")  # a repository may hold several pyproject.toml, and is one project all the same


def folders_to_root(folder: str) -> list[str]:
    """`folder` and those above it up to the repository's root, or to the nearest pyproject.toml outside of one.

    Empty where neither is found.
    """
    above = [folder]
    while (parent := os.path.dirname(above[-1])) != above[-1]:
        above.append(parent)
    for mark in _MARKS:
        for i, place in enumerate(above):
            if os.path.exists(os.path.join(place, mark)):
                return above[: i + 1]
    return []
