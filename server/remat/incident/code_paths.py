"""Finds the file that a log names on this machine, also where the log was written on another one."""

# Paths are str here, as logs give them; those of Windows must be understood on Linux, too.
# ruff: noqa: PTH113, PTH117, PTH118, PTH206
from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from remat.files import DEFAULT_EXCLUDES
from remat.incident.harmless import may_be_asked_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FRAME = re.compile(r'File "(?P<path>[^"\n]{1,1000})", line (?P<line>\d{1,9})')
_PLAIN = re.compile(r"(?<![\w/.\\-])(?P<path>(?:[A-Za-z]:)?[\w./\\~-]{1,400}\.py):(?P<line>\d{1,9})\b")
_NEVER = re.compile(r"[/\\](?:site-packages|dist-packages|lib[/\\]python3[.\d]*)[/\\]|^<")
_MOST_ENTRIES = 200_000


@dataclass(slots=True)
class CodePaths:
    """`roots`: the workspace's folders. `cwd`: where the run was started, if known. What was found is remembered."""

    roots: Sequence[str]
    cwd: str | None = None
    _known: dict[str, str | None] = field(default_factory=dict)
    _by_name: dict[str, list[str]] | None = None

    def find(self, path: str) -> str | None:
        """
        The file that a log calls `path`; None where there is none, or several could be meant.

        A path of another machine is taken to be the workspace's file that ends in most of the same folders.
        """
        if path not in self._known:
            self._known[path] = self._look(path)
        return self._known[path]

    def inside(self, path: str) -> bool:
        """Whether it is in the workspace and nobody's library."""
        return any(_within(path, root) for root in self.roots) and _NEVER.search(path) is None

    def _look(self, path: str) -> str | None:
        if path.startswith("<") or not may_be_asked_for(path):
            return None
        if os.path.isabs(path):
            if os.path.isfile(path):
                return os.path.normpath(path)
        else:
            for folder in (self.cwd, *self.roots):
                if folder and os.path.isfile(candidate := os.path.normpath(os.path.join(folder, path))):
                    return candidate
        return None if _NEVER.search(path) else self._by_its_end(path)

    def _by_its_end(self, path: str) -> str | None:
        parts = [part for part in re.split(r"[/\\]", path) if part not in {"", ".", "~"}]
        if not parts:
            return None
        same = sorted(((_shared(parts, found), found) for found in self._named(parts[-1])), reverse=True)
        if not same or (len(same) > 1 and same[0][0] == same[1][0]):
            return None
        return same[0][1]

    def _named(self, name: str) -> list[str]:
        if self._by_name is None:
            self._by_name = {}
            for found in _python_files(self.roots):
                self._by_name.setdefault(os.path.basename(found), []).append(found)  # noqa: PTH119
        return self._by_name.get(name, [])


@dataclass(frozen=True, slots=True)
class Named:
    """A place of code that a line of a log names, from `start` to `end`: line `line`, from 1, of `path`."""

    start: int
    end: int
    path: str
    line: int


def named_places(line: str) -> Iterator[Named]:
    """Each place of code in a line of a log."""
    if ".py" not in line and 'File "' not in line:
        return
    for match in [*FRAME.finditer(line)] or [*_PLAIN.finditer(line)]:
        yield Named(match.start("path"), match.end("line"), match["path"], int(match["line"]))


def _shared(parts: Sequence[str], path: str) -> int:
    """How many folders at the end are the same."""
    count = 0
    for ours, theirs in zip(reversed(parts), reversed(path.split(os.sep)), strict=False):
        if ours != theirs:
            break
        count += 1
    return count


def _python_files(roots: Sequence[str]) -> Iterator[str]:
    entries = 0
    for root in roots:
        for folder, folders, files in os.walk(root):
            entries += len(folders) + len(files)
            if entries > _MOST_ENTRIES:  # a folder of data, or a whole disk
                return
            folders[:] = [name for name in folders if name not in DEFAULT_EXCLUDES]
            yield from (os.path.join(folder, name) for name in files if name.endswith(".py"))


def _within(path: str, root: str) -> bool:
    return path == root or path.startswith(os.path.join(root, ""))
