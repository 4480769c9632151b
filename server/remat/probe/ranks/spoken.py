"""What ranks say to the worker that launched them: each writes files into one folder, which the worker reads."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TextIO

from remat.probe.frames import user_line
from remat.probe.lines import read_event, request_line
from remat.probe.messages import Done, Failure, Progress, VariantResult
from remat.probe.processes import lives

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remat.probe.messages import Event, Location, Request

FOLDER = "REMAT_RANKS"
"""the environment variable that tells a rank its folder"""
PREFIX = "remat-ranks-"
_REQUEST, _EVENTS, _FAULTS = "request", ".events", ".faults"
_TICK = 0.2


@dataclass(frozen=True, slots=True)
class Heard:
    """What one rank has said so far."""

    rank: int
    pid: int
    result: VariantResult | None = None
    """the last of at most two: the figures alone, then with what they consist of"""
    failure: Failure | None = None
    is_done: bool = False
    stage: str = "import"
    place: Location | None = None
    """the user's line, where the process was told to say it or crashed"""
    at: float = 0.0
    """when it last said something"""


# ---- the rank's side


def is_rank() -> bool:
    return FOLDER in os.environ


def open_channel() -> tuple[TextIO, TextIO, TextIO]:
    """Return where this rank's requests come from, its events go, and Python writes where it is when it ends."""
    folder = Path(os.environ[FOLDER])
    name = f"{os.environ['RANK']}-{os.getpid()}"
    return (
        (folder / _REQUEST).open(encoding="utf-8"),
        (folder / f"{name}{_EVENTS}").open("w", encoding="utf-8", buffering=1),
        (folder / f"{name}{_FAULTS}").open("w", encoding="utf-8"),
    )


def end_with_launcher(faults: TextIO) -> None:
    """Not outlive what launched this rank, whoever ended that; and say where the code is when asked."""
    if os.name != "posix":
        return
    faulthandler.register(signal.SIGUSR1, faults)
    threading.Thread(target=_watch, args=(os.getppid(), worker_of(Path(os.environ[FOLDER]))), daemon=True).start()


def wait_for_the_end() -> NoReturn:
    """A rank that is done stays: were it to leave, the others would fail for want of it."""
    while True:
        time.sleep(60)


def _watch(launcher: int, worker: int) -> None:
    while os.getppid() == launcher and lives(worker):
        time.sleep(_TICK)
    os.killpg(os.getpgrp(), signal.SIGKILL)


# ---- the worker's side


def folder_name() -> str:
    """How the name of this worker's folder begins: it tells whose it is."""
    return f"{PREFIX}{os.getpid()}-"


def worker_of(folder: Path) -> int:
    return int(folder.name.removeprefix(PREFIX).partition("-")[0])


def write_request(folder: Path, request: Request) -> None:
    (folder / _REQUEST).write_text(request_line(request), "utf-8")


def heard(folder: Path) -> list[Heard]:
    """What each rank that has begun has said, by rank."""
    return sorted(map(_heard, folder.glob(f"*{_EVENTS}")), key=lambda one: one.rank)


def ask_where(ranks: list[Heard]) -> None:
    """Have ranks that are not done write where they are."""
    for one in ranks:
        if not one.is_done and os.name == "posix":
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(one.pid, signal.SIGUSR1)


def _heard(file: Path) -> Heard:
    rank, pid = map(int, file.name.removesuffix(_EVENTS).split("-"))
    events = list(_events(file))
    results = [event for event in events if isinstance(event, VariantResult)]
    failures = [event for event in events if isinstance(event, Failure)]
    stages = [event.stage for event in events if isinstance(event, Progress)]
    faults = file.with_name(file.name.replace(_EVENTS, _FAULTS))
    return Heard(
        rank,
        pid,
        results[-1] if results else None,
        failures[0] if failures else None,
        any(isinstance(event, Done) for event in events),
        stages[-1] if stages else "import",
        user_line(faults.read_text("utf-8", "replace")) if faults.exists() else None,
        file.stat().st_mtime,
    )


def _events(file: Path) -> Iterator[Event]:
    """Whole lines; the last may be half written."""
    for line in file.read_text("utf-8", "replace").splitlines(keepends=True):
        if line.endswith("\n"):
            with contextlib.suppress(ValueError):
                yield read_event(line)
