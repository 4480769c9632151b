"""Finds and reads the `[tool.remat]` table that holds for a file: the nearest pyproject.toml that has one."""

# Paths are str here: a tree walk asks for each directory, and Path costs ten times as much.
# ruff: noqa: PTH113, PTH118, PTH120, PTH123
from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME = "pyproject.toml"


@dataclass(frozen=True, slots=True)
class Pyproject:
    """One pyproject.toml. `error` says why it could not be read; then `table` is empty and defaults hold."""

    path: str
    table: Mapping[str, object] | None = None  # None: it has no [tool.remat]
    error: str | None = None

    @property
    def directory(self) -> str:
        return os.path.dirname(self.path)


def load(path: str) -> Pyproject:
    """Read one file. Never raises."""
    try:
        with open(path, "rb") as file:
            data = file.read()
        if b"remat" not in data:  # not ours to judge, and TOML is slow to parse
            return Pyproject(path)
        return _tool_remat(path, _parse(data.decode().replace("\r\n", "\n")))
    except OSError as error:
        return Pyproject(path, {}, reason(error))
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        return Pyproject(path, {}, f"invalid TOML: line {line} is not UTF-8")
    except (ValueError, RecursionError) as error:  # a TOMLDecodeError is a ValueError
        end = f"at line {len(data.splitlines())}, the end"
        return Pyproject(path, {}, f"invalid TOML: {str(error).replace('at end of document', end)}")


def _parse(text: str) -> Mapping[str, object]:
    if sys.version_info >= (3, 11):
        import tomllib  # noqa: PLC0415  (0.01 s that a project without settings does not need)
    else:
        import tomli as tomllib  # noqa: PLC0415
    return tomllib.loads(text)


def _tool_remat(path: str, document: Mapping[str, object]) -> Pyproject:
    tool = document.get("tool")
    table = tool.get("remat") if isinstance(tool, dict) else None
    if table is None:
        return Pyproject(path)
    if not isinstance(table, dict):
        return Pyproject(path, {}, f"expected a table [tool.remat], got {table!r}")
    return Pyproject(path, table)


def reason(error: OSError) -> str:
    """Say what the system said, in lower case, without the path that the caller names."""
    return (error.strerror or str(error)).lower()


@dataclass(frozen=True, slots=True)
class Pyprojects:
    """What has been read so far, so that a tree of files asks each directory once. Lives as long as one scan."""

    at: dict[str, Pyproject | None] = field(default_factory=dict)  # directory -> its own pyproject.toml
    nearest_to: dict[str, Pyproject | None] = field(default_factory=dict)

    def own(self, directory: str) -> Pyproject | None:
        """Look for a pyproject.toml in `directory` itself."""
        if directory not in self.at:
            path = os.path.join(directory, NAME)
            self.at[directory] = load(path) if os.path.isfile(path) else None
        return self.at[directory]

    def nearest(self, directory: str) -> Pyproject | None:
        """Look from `directory` upwards for one with a `[tool.remat]` table."""
        passed = []
        found = None
        while directory not in self.nearest_to:
            passed.append(directory)
            own = self.own(directory)
            parent = os.path.dirname(directory)
            if own is not None and own.table is not None:
                found = own
                break
            if parent == directory:
                break
            directory = parent
        else:
            found = self.nearest_to[directory]
        self.nearest_to.update(dict.fromkeys(passed, found))
        return found
