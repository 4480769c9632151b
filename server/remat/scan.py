"""From paths to work: finds files, reads their bytes, settings and versions, and keeps those worth parsing."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from remat.environment import Environment, find_environment, layered
from remat.examine import Job
from remat.files import Unread, discover
from remat.lint.check import KNOWN, worth_reading
from remat.lint.rules import RULES
from remat.pyproject import Pyproject, Pyprojects, reason
from remat.settings import Problem, Settings, read_settings
from remat.source_text import decode
from remat.versions import Versions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from remat.lint.rule import Option

LARGEST = 32 * 1024 * 1024  # bytes; no one writes such a file by hand
OPTIONS: Mapping[str, tuple[Option, ...]] = {
    **dict.fromkeys(sorted(KNOWN), ()),
    **{rule.name: rule.options for rule in RULES},
}


@dataclass(frozen=True, slots=True)
class Choices:
    """What the command line says; each overrides what a pyproject.toml says. `unsafe`: see `Job`."""

    select: frozenset[str] | None = None
    ignore: frozenset[str] | None = None
    versions: Versions = field(default_factory=Versions)
    python: str | None = None
    unsafe: bool | None = None


@dataclass(frozen=True, slots=True)
class Misconfigured:
    """A pyproject.toml that was wrong somewhere: what it meant does not hold, so no run with it ends well."""

    path: str
    message: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done. `files` counts all that were read; `jobs` are those where a rule could find something."""

    files: int
    jobs: tuple[Job, ...]
    unread: tuple[Unread, ...]
    misconfigured: tuple[Misconfigured, ...]
    environments: tuple[Environment, ...]


@dataclass(frozen=True, slots=True)
class Configured:
    """Settings and environments by folder, each read once. Lives as long as one scan."""

    choices: Choices
    pyprojects: Pyprojects = field(default_factory=Pyprojects)
    settings: dict[str, tuple[Settings, list[Problem]]] = field(default_factory=dict)  # by pyproject.toml
    environments: dict[str, Environment] = field(default_factory=dict)  # by folder
    read: dict[str, Environment] = field(default_factory=dict)  # by place

    def settings_of(self, folder: str) -> Settings:
        settings = self._read(self.pyprojects.nearest(folder))
        select, ignore = self.choices.select, self.choices.ignore
        return replace(
            settings,
            select=settings.select if select is None else select,
            ignore=settings.ignore if ignore is None else ignore,
        )

    def _read(self, pyproject: Pyproject | None) -> Settings:
        if pyproject is None:
            return Settings()
        if pyproject.path not in self.settings:
            self.settings[pyproject.path] = read_settings(pyproject.table or {}, OPTIONS)
        return self.settings[pyproject.path][0]

    def excludes_of(self, folder: str) -> tuple[str, tuple[str, ...]]:
        pyproject = self.pyprojects.nearest(folder)
        return (folder, ()) if pyproject is None else (pyproject.directory, self._read(pyproject).exclude)

    def versions_of(self, folder: str) -> Versions:
        """Join the versions known for a folder; for each library the command line says more than the settings."""
        return layered(self.choices.versions, self.settings_of(folder).versions, self.environment_of(folder).versions)

    def environment_of(self, folder: str) -> Environment:
        """Find the environment of a folder. Raises ValueError where `--python` does not exist."""
        if folder not in self.environments:
            self.environments[folder] = find_environment(Path(folder), self.choices.python, os.environ, self.read)
        return self.environments[folder]

    def misconfigured(self) -> tuple[Misconfigured, ...]:
        found = [Misconfigured(p.path, p.error) for p in self.pyprojects.at.values() if p is not None and p.error]
        for path, (_, problems) in self.settings.items():
            found += [Misconfigured(path, f"[tool.remat] {problem.key}: {problem.message}") for problem in problems]
        return tuple(sorted(found, key=lambda wrong: wrong.path))


def plan(paths: Sequence[str], choices: Choices) -> Plan:
    """Find the files and read those worth parsing. Raises ValueError where `--python` does not exist."""
    configured = _configured(choices)
    found, unread = discover(paths, configured.excludes_of)
    jobs: list[Job] = []
    files = len(found)
    for path in found:
        try:
            data = _read(path)
        except (OSError, ValueError) as error:
            unread.append(Unread(path, reason(error) if isinstance(error, OSError) else str(error)))
            files -= 1
            continue
        if worth_reading(data):
            jobs.append(_job(path, data, configured))
    unread.sort(key=lambda one: one.path)
    return _planned(configured, files, jobs, unread)


def plan_one(path: str, data: bytes, choices: Choices) -> Plan:
    """Like `plan`, for a text that did not come from a file but stands at `path`, as from standard input."""
    configured = _configured(choices)
    job = _job(path, data, configured)
    try:
        decode(data)
    except ValueError as error:
        return _planned(configured, 0, [], [Unread(path, str(error))])
    return _planned(configured, 1, [job], [])


def _configured(choices: Choices) -> Configured:
    configured = Configured(choices)
    if choices.python:  # wrong is wrong, even where no file asks for it
        configured.environment_of(os.getcwd())  # noqa: PTH109
    return configured


def _planned(configured: Configured, files: int, jobs: Sequence[Job], unread: Sequence[Unread]) -> Plan:
    environments = {environment.place: environment for environment in configured.environments.values()}
    return Plan(files, tuple(jobs), tuple(unread), configured.misconfigured(), tuple(environments.values()))


def _job(path: str, data: bytes, configured: Configured) -> Job:
    folder = os.path.dirname(path)  # noqa: PTH120  (a str, as all paths of a scan are)
    choices = configured.choices
    return Job(path, data, configured.settings_of(folder), configured.versions_of(folder), choices.unsafe)


def _read(path: str) -> bytes:
    """Read a file that can be decoded. Raises OSError, or ValueError with the reason why it cannot."""
    with open(path, "rb") as file:  # noqa: PTH123
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise ValueError(f"it is larger than {LARGEST // 1024**2} MiB and was not read")
    decode(data)
    return data
