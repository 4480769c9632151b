"""What holds for a file beside its text, in an editor where all of it may change: settings, versions, the files around.

Everything here reads the disk, so it runs in the analysis thread only.
"""

# Paths are str here, as in the modules it asks.
# ruff: noqa: PTH110, PTH116, PTH120, PTH206
from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from remat.environment import Environment, find_environment, layered
from remat.files import left_out
from remat.lint.project import Project
from remat.lint.rule import Context
from remat.pyproject import Pyproject, Pyprojects, load
from remat.scan import OPTIONS
from remat.settings import Problem, Settings, read_settings
from remat.surroundings import Surroundings, read_small

if TYPE_CHECKING:
    from collections.abc import Callable

    from remat.lsp.options import Options

_BELIEVED = 2.0  # seconds that what was read is believed where no one tells about changes
_NEVER_OURS = frozenset({"site-packages", "dist-packages"})

Problems = tuple[Problem, ...]


class Contexts:
    """`say` gets a level of the log and a sentence, once each; `tell` the problems of a pyproject.toml that changed."""

    def __init__(self, say: Callable[[str, str], None], tell: Callable[[str, Problems], None]) -> None:
        self._say, self._tell = say, tell
        self._said: set[str] = set()
        self._told: dict[str, Problems] = {}
        self._stamps: dict[str, tuple[int, int] | None] = {}
        self._environments: dict[tuple[str, str | None], Environment] = {}
        self._looked: dict[tuple[str, str | None], float] = {}
        self._surroundings = Surroundings(self._read)
        self._begin()

    def _begin(self) -> None:
        self._pyprojects = Pyprojects()
        self._settings: dict[str, Settings] = {}
        self._left_out: dict[tuple[str, str], bool] = {}
        self._renewed = time.monotonic()

    def renew(self) -> None:
        """Believe nothing of what was read before, but read again only what changed on the disk."""
        self._begin()
        known = self._surroundings.summaries
        same = {path: summary for path, summary in known.items() if _stamp(path) == self._stamps.get(path)}
        self._surroundings = Surroundings(self._read, summaries=same)
        self._environments = {key: e for key, e in self._environments.items() if e.stamps and e.is_current()}
        for path in list(self._told):
            self._judge(load(path) if os.path.exists(path) else Pyproject(path))

    def of(self, path: str, text: str, root: str, options: Options, *, watched: bool) -> Context | None:
        """What holds for the file at `path` with `text`; None where it is not the user's to check.

        `root`: the workspace folder it belongs to. `watched`: `renew` is called whenever a file changes.
        """
        if not watched and time.monotonic() - self._renewed > _BELIEVED:
            self.renew()
        folder = os.path.dirname(path)
        pyproject = self._pyprojects.nearest(folder)
        settings = self._settings_of(pyproject) if pyproject else Settings()
        if self._excluded(path, root or (pyproject.directory if pyproject else "")):
            return None
        environment = self._environment(folder, options.interpreter_for(path))
        versions = layered(settings.versions, environment.versions)
        around = self._surroundings.of(path, text).summaries
        telling = tuple(summary for summary in around if summary.facts)  # a new metrics.json makes no other context
        return Context(versions, settings, Project(telling))

    def _excluded(self, path: str, root: str) -> bool:
        """Whether `remat check` of the root would pass it by, or it is an installed library that someone looks into."""
        if (path, root) not in self._left_out:
            installed = not _NEVER_OURS.isdisjoint(path.split(os.sep))
            self._left_out[path, root] = installed or (bool(root) and left_out(path, root, self._excludes_of))
        return self._left_out[path, root]

    def _excludes_of(self, folder: str) -> tuple[str, tuple[str, ...]]:
        pyproject = self._pyprojects.nearest(folder)
        return (folder, ()) if pyproject is None else (pyproject.directory, self._settings_of(pyproject).exclude)

    def _settings_of(self, pyproject: Pyproject) -> Settings:
        if pyproject.path not in self._settings:
            self._settings[pyproject.path] = self._judge(pyproject)
        return self._settings[pyproject.path]

    def _judge(self, pyproject: Pyproject) -> Settings:
        """Read its settings, and tell its problems where they are not those told before."""
        settings, found = read_settings(pyproject.table or {}, OPTIONS)
        problems = (Problem("", pyproject.error),) if pyproject.error else tuple(found)
        if problems != self._told.get(pyproject.path, ()):
            self._tell(pyproject.path, problems)
        self._told[pyproject.path] = problems
        return settings

    def _environment(self, folder: str, interpreter: str | None) -> Environment:
        key = (folder, interpreter)
        if time.monotonic() - self._looked.get(key, 0.0) > _BELIEVED:
            self._looked[key] = time.monotonic()
            if key in self._environments and not self._environments[key].is_current():
                del self._environments[key]  # something was installed, removed or upgraded
        if key not in self._environments:
            try:
                self._environments[key] = find_environment(Path(folder), interpreter, os.environ)
            except ValueError as error:
                found = self._environments[key] = find_environment(Path(folder), None, os.environ)
                instead = f"read from {found.place} instead" if found.place else "not known"
                self._say_once("warning", f"{error}; the versions of torch and transformers are {instead}")
            self._say_once("info", _about(self._environments[key]))
        return self._environments[key]

    def _say_once(self, level: str, sentence: str) -> None:
        if sentence not in self._said:
            self._said.add(sentence)
            self._say(level, sentence)

    def _read(self, path: str, largest: int) -> str | None:
        self._stamps[path] = _stamp(path)
        return read_small(path, largest)


def _about(environment: Environment) -> str:
    known = environment.versions.known
    if environment.place is None or not known:
        return "no environment with torch was found: what is said holds for every version"
    return f"versions are those of {environment.place}: {', '.join(f'{name} {known[name]}' for name in sorted(known))}"


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
