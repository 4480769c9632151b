"""The files that a log calls its own: error files of torchrun, logs of single ranks, dumps of the flight recorder."""

# Paths are str here, as logs give them.
# ruff: noqa: PTH113, PTH117, PTH118, PTH119, PTH120, PTH202
from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from remat.incident.harmless import may_be_asked_for

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

_HINTS = ("error.json", "stderr.log", "stdout.log", "trace_rank", "slurm-")
_NAMED = re.compile(
    r"""(?P<path>(?:[A-Za-z]:)?[\w./\\~+@%=-]{0,600}(?:error\.json|std(?:err|out)\.log|trace_rank_\d+(?:\.json)?|slurm-\d+(?:_\d+)?\.(?:out|err)))(?![\w/])"""
)
_KINDS = (
    ("error.json", "the error file of a rank, with its traceback and the time to the microsecond"),
    (".log", "the output of one rank"),
    ("trace_rank_", "a dump of the NCCL flight recorder: the collectives that a rank had called"),
    ("slurm-", "the output of a Slurm job"),
)
_MOST = 128
_LARGEST = 64 * 1024 * 1024  # bytes


@dataclass(frozen=True, slots=True)
class Evidence:
    """A file beside the log. `read`: it may be read, since it is in the workspace or the user allowed it."""

    path: str
    what: str
    read: bool


def noted(lines: Iterable[str], names: dict[str, None]) -> Iterator[str]:
    """The same lines; `names` gathers the evidence they name."""
    for line in lines:
        if any(hint in line for hint in _HINTS) and len(names) < _MOST:
            names.update(dict.fromkeys(match["path"] for match in _NAMED.finditer(line)))
        yield line


def evidence(
    names: Iterable[str], folders: Iterable[str], may_read: Callable[[str], bool], own: Collection[str]
) -> list[Evidence]:
    """Those of `names` that exist, relative ones below `folders`; `own`: the log itself, which is no news."""
    places = [folder for folder in folders if folder]
    found: dict[str, None] = {}
    for name in names:
        if not may_be_asked_for(name):
            continue
        for candidate in [name] if os.path.isabs(name) else [os.path.join(folder, name) for folder in places]:
            path = os.path.realpath(candidate)
            if path not in own and _is_small_file(path):
                found[path] = None
                found.update(dict.fromkeys(_beside(path)))
                break
    return [Evidence(path, _what(path), may_read(path)) for path in list(found)[:_MOST]]


def _is_small_file(path: str) -> bool:
    try:
        return os.path.isfile(path) and os.path.getsize(path) <= _LARGEST
    except OSError:
        return False


def _beside(path: str) -> Iterator[str]:
    """With torchrun the log names the error file; what the rank printed lies in the same folder."""
    if os.path.basename(path) == "error.json":
        sibling = os.path.join(os.path.dirname(path), "stderr.log")
        if os.path.isfile(sibling):
            yield sibling


def _what(path: str) -> str:
    name = os.path.basename(path)
    return next(what for part, what in _KINDS if part in name)
