"""Processes and all that they started, seen from outside: what memory they hold, and how they are ended."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_DEFAULT = 16 * 2**30
_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class _Process:
    pid: int
    parent: int
    group: int
    resident: int


def memory_of(group: int) -> int:
    """Return the resident bytes of every process of a group and of all that they started, in whatever group that is;
    0 where it can't be found out.
    """
    return sum(process.resident for process in _family(list(_all()), lambda process: process.group == group))


def end(group: int) -> None:
    """End every process of a group and all that they started: torchrun's ranks have groups of their own."""
    if os.name != "posix":
        _end_tree(group)
        return
    others = {process.group for process in _family(list(_all()), lambda process: process.group == group)}
    for one in (group, *(others - {group})):
        _kill(one)


def end_started_by(pid: int) -> None:
    """End a process of this one's own group, and all that it started in others."""
    if os.name != "posix":
        _end_tree(pid)
        return
    for one in {process.group for process in _family(list(_all()), lambda p: p.pid == pid)} - {os.getpgrp()}:
        _kill(one)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def lives(pid: int) -> bool:
    """Whether there is such a process, on systems where that can be asked without harm."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def physical_memory() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return _DEFAULT


def _kill(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def _end_tree(pid: int) -> None:
    with contextlib.suppress(OSError):
        subprocess.run(["taskkill", "/F", "/T", "/PID", str(pid)], capture_output=True, check=False)  # noqa: S603, S607


def _family(known: list[_Process], is_root: Callable[[_Process], bool]) -> list[_Process]:
    members = {process.pid for process in known if is_root(process)}
    while more := {process.pid for process in known if process.parent in members} - members:
        members |= more
    return [process for process in known if process.pid in members]


def _all() -> Iterator[_Process]:
    if (_PROC / "self" / "stat").exists():
        for folder in _PROC.iterdir():
            if folder.name.isdecimal() and (found := _read(folder)) is not None:
                yield found
        return
    try:
        run = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,pgid=,rss="], capture_output=True, text=True, check=False)  # noqa: S607
    except OSError:
        return
    for row in map(str.split, run.stdout.splitlines()):
        if len(row) == 4 and all(cell.isdecimal() for cell in row):
            pid, parent, group, kilobytes = map(int, row)
            yield _Process(pid, parent, group, kilobytes * 1024)


def _read(folder: Path) -> _Process | None:
    try:
        fields = (folder / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:  # it has just ended
        return None
    return _Process(int(folder.name), int(fields[1]), int(fields[2]), int(fields[21]) * os.sysconf("SC_PAGE_SIZE"))
