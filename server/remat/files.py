"""Finds the Python files to read, as git and ruff users expect: ignore files, default excludes, named files always."""

# Paths are str here: a tree may hold 100,000 files, and os.scandir with str costs a tenth of Path.
# ruff: noqa: PTH110, PTH112, PTH114, PTH116, PTH118, PTH119, PTH123, PTH206
from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from remat.pyproject import reason
from remat.roots import folders_to_root

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

SUFFIXES = (".py", ".pyi", ".pyw")
IGNORE_FILES = (".gitignore", ".ignore")  # the later one decides
DEFAULT_EXCLUDES = frozenset(
    {
        ".bzr",
        ".direnv",
        ".eggs",
        ".git",
        ".hg",
        ".ipynb_checkpoints",
        ".jj",
        ".mypy_cache",
        ".nox",
        ".pants.d",
        ".pyenv",
        ".pytest_cache",
        ".pytype",
        ".ruff_cache",
        ".svn",
        ".tox",
        ".venv",
        ".vscode",
        "__pycache__",
        "__pypackages__",
        "_build",
        "buck-out",
        "build",
        "dist",
        "node_modules",
        "site-packages",
        "venv",
    }
)
ENVIRONMENT_MARKS = ("pyvenv.cfg", "conda-meta")  # what makes a folder of any name a Python environment

# The exclude patterns that hold in a directory, with the directory they are relative to.
Excludes = Callable[[str], tuple[str, tuple[str, ...]]]


@dataclass(frozen=True, slots=True)
class Unread:
    """A file or folder that could not be read, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class _Patterns:
    base: str
    spec: GitIgnoreSpec

    def verdict(self, path: str, *, folder: bool) -> bool | None:
        """Tell whether `path`, which lies below `base`, is ignored; None where no pattern speaks of it."""
        relative = path[len(self.base) :].lstrip(os.sep)
        return self.spec.check_file(f"{relative}/" if folder else relative).include


def discover(paths: Iterable[str], excludes: Excludes) -> tuple[list[str], list[Unread]]:
    """Return the absolute paths of the files that `paths` name or hold, in path order and once each."""
    found: dict[str, None] = {}
    unread: list[Unread] = []
    linked: list[str] = []
    for path in map(os.path.abspath, paths):
        if os.path.isdir(path):
            for item in _walk(path, excludes):
                if isinstance(item, Unread):
                    unread.append(item)
                elif os.path.islink(item):
                    linked.append(item)
                else:
                    found[item] = None
        elif (why := _unusable(path)) is not None:
            unread.append(Unread(path, why))
        else:
            found[path] = None
    for link in linked:  # a link to a file that is there anyway would be reported, and fixed, twice
        if os.path.realpath(link) not in found:
            found[link] = None
    return sorted(found, key=lambda path: path.split(os.sep)), unread


def _unusable(path: str) -> str | None:
    try:
        os.stat(path)
    except OSError as error:
        return reason(error)
    if path.endswith(".ipynb"):
        return "notebooks are not read yet; export it as a .py file"
    return None


def left_out(path: str, root: str, excludes: Excludes) -> bool:
    """Whether a walk of the folder `root` passes by the file at `path` below it; the file need not exist."""
    if not path.startswith(os.path.join(root, "")):
        return False
    folder, ignores = root, _inherited(root)
    names = os.path.relpath(path, root).split(os.sep)
    for i, name in enumerate(names):
        if folder != root and any(os.path.exists(os.path.join(folder, mark)) for mark in ENVIRONMENT_MARKS):
            return True
        ignores = (*ignores, *_own(folder))
        exclude = _exclude(root, *excludes(folder))
        entry = os.path.join(folder, name)
        if _excluded(entry, ignores, exclude, folder=i + 1 < len(names)):
            return True
        folder = entry
    return False


def _walk(root: str, excludes: Excludes) -> Iterator[str | Unread]:
    """Yield the Python files below `root`, which is walked even where something excludes it."""
    folders = [(root, _inherited(root))]
    while folders:
        folder, inherited = folders.pop()
        try:
            with os.scandir(folder) as scan:
                entries = sorted(scan, key=lambda entry: entry.name)
        except OSError as error:
            yield Unread(folder, reason(error))
            continue
        names = {entry.name for entry in entries}
        if folder != root and not names.isdisjoint(ENVIRONMENT_MARKS):
            continue
        ignores = (*inherited, *_own(folder)) if not names.isdisjoint(IGNORE_FILES) else inherited
        exclude = _exclude(root, *excludes(folder))
        for entry in entries:
            folder_in_it = _is_folder(entry)
            wanted = folder_in_it or (entry.name.endswith(SUFFIXES) and _is_file(entry))
            if not wanted or _excluded(entry.path, ignores, exclude, folder=folder_in_it):
                continue
            if folder_in_it:
                folders.append((entry.path, ignores))
            else:
                yield entry.path


def _inherited(root: str) -> tuple[_Patterns, ...]:
    """The ignore files above a folder that is walked, without those that would ignore the folder itself."""
    return tuple(p for p in _above(root) if not p.verdict(root, folder=True))


def _own(folder: str) -> Iterator[_Patterns]:
    for name in IGNORE_FILES:
        yield from _ignore_file(folder, name)


def _excluded(path: str, ignores: tuple[_Patterns, ...], exclude: _Patterns | None, *, folder: bool) -> bool:
    chosen = exclude.verdict(path, folder=folder) if exclude else None
    if chosen is None:
        chosen = folder and os.path.basename(path) in DEFAULT_EXCLUDES
    return chosen or _ignored(path, ignores, folder=folder)


def _ignored(path: str, ignores: tuple[_Patterns, ...], *, folder: bool) -> bool:
    for patterns in reversed(ignores):  # the nearest file decides, as in git
        if (verdict := patterns.verdict(path, folder=folder)) is not None:
            return verdict
    return False


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Tell whether to walk it: links to folders are not followed, they lead to datasets and in circles."""
    return entry.is_dir(follow_symlinks=False)


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:  # a link to itself
        return False


def _above(root: str) -> Iterator[_Patterns]:
    """Yield the ignore files above `root` up to its project's root, outermost first."""
    folders = folders_to_root(root)
    if folders:
        yield from _ignore_file(folders[-1], os.path.join(".git", "info", "exclude"))
    for folder in reversed(folders[1:]):
        yield from _own(folder)


def _ignore_file(folder: str, name: str) -> Iterator[_Patterns]:
    try:
        with open(os.path.join(folder, name), encoding="utf-8", errors="surrogateescape") as file:
            lines = tuple(file.read().split("\n"))
    except OSError:  # git reads on without it, too
        return
    yield _Patterns(folder, _compiled(lines))


def _exclude(root: str, base: str, patterns: tuple[str, ...]) -> _Patterns | None:
    if not patterns:
        return None
    compiled = _Patterns(base, _compiled(tuple(pattern.removeprefix("./") for pattern in patterns)))
    named = root.startswith(base) and root != base and compiled.verdict(root, folder=True)
    return None if named else compiled


def _compiled(lines: tuple[str, ...]) -> GitIgnoreSpec:
    """Compile the lines of an ignore file; a line git would not understand is passed over, as git does."""
    from pathspec import GitIgnoreSpec  # noqa: PLC0415  (0.04 s that a check of named files does not need)

    try:
        return GitIgnoreSpec.from_lines(lines)
    except ValueError:
        return GitIgnoreSpec.from_lines(line for line in lines if _understood(line))


def _understood(line: str) -> bool:
    from pathspec import GitIgnoreSpec  # noqa: PLC0415

    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True
