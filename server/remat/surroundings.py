"""Gathers what the files around a checked one say: the modules it imports and the project's configuration files."""

# Paths are str here: every checked file asks for its folders, and Path costs ten times as much.
# ruff: noqa: PTH110, PTH112, PTH113, PTH118, PTH119, PTH120, PTH123
from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from remat.files import DEFAULT_EXCLUDES
from remat.libraries import LIBRARIES
from remat.lint.project import Project, Summary, summarise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+(?:\(([^)]{0,4000})\)|([^\n#(]*))|import[ \t]+([^\n#]+))",
    re.MULTILINE,
)
_NAME = re.compile(r"(?:^|,)\s*([\w.]+)")
_ELSEWHERE = sys.stdlib_module_names | LIBRARIES | {"numpy", "datasets", "tqdm", "wandb", "pytest", "einops"}
_CONFIGS = (".json", ".yaml", ".yml")
_CONFIG_FOLDER = re.compile(r"conf|deepspeed|accelerate|\bds\b|recipe|yaml|json", re.IGNORECASE)
_ROOT_MARKS = (".git", "pyproject.toml", "setup.py", "setup.cfg")
_LARGEST_CONFIG = 64 * 1024  # bytes; a larger JSON file is data
_LARGEST_MODULE = 1024 * 1024
_MOST_CONFIGS = 200
_MOST_MODULES = 50
# Lines without one of these say nothing, and finding them is 50 times faster than the patterns of `summarise`, which an
# editor would run over the whole text at every key.
_TELLING = ("stage", "zero", "peft", "lora", "fully_shard", "fsdp_version", "use_cache")
_DEPTH = 2  # folders below a file's own that are searched for configuration


def read_small(path: str, largest: int) -> str | None:
    """Read a text that may be wrongly encoded; None where it is missing, not a plain file, or too large."""
    try:
        if not os.path.isfile(path):
            return None
        with open(path, "rb") as file:
            data = file.read(largest + 1)
    except OSError:
        return None
    return None if len(data) > largest else data.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What has been read so far. Lives as long as one scan; an editor starts anew when a file was saved.

    `read` gives the text of a path, of at most so many bytes; an editor puts its open documents before the disk.
    """

    read: Callable[[str, int], str | None] = read_small
    summaries: dict[str, Summary | None] = field(default_factory=dict)
    listings: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = field(default_factory=dict)
    configs: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def of(self, path: str, text: str) -> Project:
        """Say what the file at `path`, whose text is `text`, and the files around it say."""
        folder = os.path.dirname(path)
        above = _upwards(folder)
        modules = [found for found in _imported(folder, above, text) if found != path]
        if folder not in self.configs:
            self.configs[folder] = tuple(self._near(above))[:_MOST_CONFIGS]
        wanted = [(module, _LARGEST_MODULE) for module in modules[:_MOST_MODULES]]
        wanted += [(config, _LARGEST_CONFIG) for config in self.configs[folder]]
        found = (self._summary(name, largest, above[-1]) for name, largest in wanted)
        own = _summary(path, above[-1], text)
        return Project((own, *(summary for summary in found if summary is not None)))

    def _summary(self, path: str, largest: int, root: str) -> Summary | None:
        if path not in self.summaries:
            text = self.read(path, largest)
            self.summaries[path] = None if text is None else _summary(path, root, text)
        return self.summaries[path]

    def _near(self, above: list[str]) -> Iterator[str]:
        """Yield configuration files: those below the file's folder, then those on the way up to the root."""
        yield from self._below(above[0], _DEPTH)
        for folder in above[1:]:
            configs, folders = self._listing(folder)
            yield from configs
            for inner in folders:
                if _CONFIG_FOLDER.search(os.path.basename(inner)) and inner not in above:
                    yield from self._below(inner, _DEPTH - 1)

    def _below(self, folder: str, depth: int) -> Iterator[str]:
        configs, folders = self._listing(folder)
        yield from configs
        if depth:
            for inner in folders:
                yield from self._below(inner, depth - 1)

    def _listing(self, folder: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the configuration files and the folders directly in `folder`."""
        if folder not in self.listings:
            configs, folders = [], []
            try:
                with os.scandir(folder) as scan:
                    for entry in scan:
                        if entry.is_dir(follow_symlinks=False):
                            if entry.name not in DEFAULT_EXCLUDES and not entry.name.startswith("."):
                                folders.append(entry.path)
                        elif entry.name.endswith(_CONFIGS):
                            configs.append(entry.path)
            except OSError:
                pass  # what cannot be read says nothing
            self.listings[folder] = tuple(sorted(configs)[:_MOST_CONFIGS]), tuple(sorted(folders)[:_MOST_CONFIGS])
        return self.listings[folder]


def _summary(path: str, root: str, text: str) -> Summary:
    return summarise(os.path.relpath(path, root).replace(os.sep, "/"), "\n".join(_telling_lines(text)))


def _telling_lines(text: str) -> Iterator[str]:
    """Yield the lines that may tell something, each with the next: a value may stand below its key."""
    for word in _TELLING:
        at = text.find(word)
        while at >= 0:
            line_end = text.find("\n", at)
            end = text.find("\n", line_end + 1) if line_end >= 0 else -1
            end = len(text) if end < 0 else end
            yield text[text.rfind("\n", 0, at) + 1 : end]
            at = text.find(word, end)


def _upwards(folder: str) -> list[str]:
    """Return `folder` and those above it up to the project's root; only `folder` where there is no project."""
    found = [folder]
    while True:
        if any(os.path.exists(os.path.join(found[-1], mark)) for mark in _ROOT_MARKS):
            return found
        parent = os.path.dirname(found[-1])
        if parent == found[-1]:
            return [folder]
        found.append(parent)


def _imported(folder: str, above: list[str], text: str) -> Iterator[str]:
    """Yield the files of the project that `text`, a module in `folder`, imports."""
    packages = [*above, os.path.join(above[-1], "src")]
    there: dict[str, list[str]] = {}  # the first part of a dotted name -> the folders that have it
    for module in dict.fromkeys(_modules(text)):
        name = module.lstrip(".")
        if level := len(module) - len(name):
            bases = [os.path.normpath(os.path.join(folder, *[".."] * (level - 1)))]
        else:
            top = name.partition(".")[0]
            if top not in there:
                there[top] = [] if top in _ELSEWHERE else [base for base in packages if _has(base, top)]
            bases = there[top]
        for base in bases:
            path = os.path.join(base, *filter(None, name.split(".")))
            yield from filter(os.path.isfile, (f"{path}.py", os.path.join(path, "__init__.py")))


def _modules(text: str) -> Iterator[str]:
    """Yield the dotted names that may be modules: `from .a import b` gives `.a` and `.a.b`."""
    for found in _IMPORT.finditer(text):
        package, listed, line, plain = found.groups()
        if plain is not None:
            yield from _NAME.findall(plain)
        elif package.partition(".")[0] not in _ELSEWHERE:
            yield package
            names: Iterable[str] = _NAME.findall(re.sub(r"#[^\n]*", "", listed or line or ""))
            yield from (package + name if package.endswith(".") else f"{package}.{name}" for name in names)


def _has(folder: str, module: str) -> bool:
    path = os.path.join(folder, module)
    return os.path.isfile(f"{path}.py") or os.path.isdir(path)
