"""What the worker sets up before the user's code runs: its own channel, limits, and a last word when it is ended."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TextIO

from remat.probe.lines import event_line
from remat.probe.messages import Failure, Location
from remat.probe.ranks.spoken import end_with_launcher, is_rank
from remat.probe.ranks.spoken import open_channel as ranks_channel

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

_OWN = str(Path(__file__).parent)
_LIBRARIES = ("site-packages", "dist-packages")
_DESTRUCTIVE = {"os.remove", "os.rename", "os.rmdir", "os.truncate", "shutil.rmtree", "shutil.move"}
"""events of Python's audit hooks"""
_STANDARD = str(Path(os.__file__).parent)


@dataclass(frozen=True, slots=True)
class Channel:
    """Where requests come from, events go, and Python writes where the code is when the process hangs or ends."""

    requests: TextIO
    events: TextIO
    faults: TextIO


def open_channel() -> Channel:
    """Return the way to whoever asked; afterwards what the user's code reads or prints is not theirs.

    Standard input becomes empty, and standard output goes to standard error, for code in C as well.
    """
    if is_rank():
        channel = Channel(*ranks_channel())
        end_with_launcher(channel.faults)
    else:
        requests = os.fdopen(os.dup(0), "r", encoding="utf-8")
        channel = Channel(requests, os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1), sys.stderr)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return channel


def guard(channel: Channel, stage: Callable[[], str], memory_bytes: int | None) -> None:
    """Limit the memory, and say where the user's code was when it ends the process, by itself or by a fault."""
    events = channel.events
    keep_files()
    faulthandler.enable(channel.faults)
    leave = os._exit

    def leaving(status: int) -> NoReturn:
        place = user_location(sys._getframe(1))
        where = f" at {place.path}:{place.line}" if place else ""
        failure = Failure(None, stage(), f"the code ended the process itself, with os._exit({status}){where}", place)
        with contextlib.suppress(OSError, ValueError):
            events.write(event_line(failure))
            events.flush()
        leave(status)

    os._exit = leaving
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: _mute(events, leave))
    if memory_bytes is not None:
        _limit(memory_bytes)


def keep_files() -> None:
    """Let the user's own code delete, move or cut no file: the probe only looks."""
    sys.addaudithook(_refuse)


def _refuse(event: str, args: tuple[object, ...]) -> None:
    if event not in _DESTRUCTIVE:
        return
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_standard(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is not None and is_users(frame.f_code.co_filename):
        what = f"{event} {args[0]}" if args else event
        raise PermissionError(f"the probe deletes, moves and cuts no files: {what} was not done")


def _is_standard(path: str) -> bool:
    return path.startswith("<") or (path.startswith(_STANDARD) and not any(name in path for name in _LIBRARIES))


_until = [float("inf")]


def time_limit(seconds: float, faults: TextIO) -> None:
    """Print where every thread is once the time is over; the parent reads it and ends the process."""
    _until[0] = time.monotonic() + seconds
    faulthandler.dump_traceback_later(seconds, exit=False, file=faults)


def time_left() -> float:
    """Seconds until the limit."""
    return _until[0] - time.monotonic()


def time_is_kept() -> None:
    faulthandler.cancel_dump_traceback_later()


def user_location(frame: FrameType | None) -> Location | None:
    """Return the innermost line of the user's own code on the stack."""
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            return Location(frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return None


def error_location(error: BaseException) -> Location | None:
    """Return the innermost line of the user's code that an exception went through; for one of syntax, its line."""
    if isinstance(error, SyntaxError) and error.filename and is_users(error.filename):
        return Location(error.filename, error.lineno or 1)
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if is_users(frame.filename)]
    return Location(own[-1].filename, own[-1].lineno or 1) if own else None


def last_line(error: BaseException) -> str:
    """Return the innermost line that an exception went through, of the user's or a library's but torch's own."""
    place = error_location(error)
    frames = traceback.extract_tb(error.__traceback__)
    others = [f for f in frames if not f.filename.startswith(("<", _OWN)) and "/torch/" not in f.filename]
    return f"{place.path}:{place.line}" if place else f"{others[-1].filename}:{others[-1].lineno}" if others else "?"


def is_users(path: str) -> bool:
    """Tell whether a file is neither a library's, nor Python's, nor ours."""
    if path.startswith(("<", _OWN)):
        return False
    return not any(name in path for name in _LIBRARIES) and not path.startswith(_STANDARD)


def _mute(events: TextIO, leave: Callable[[int], NoReturn]) -> None:
    """A copy of this process must not speak for it."""
    os._exit = leave  # type: ignore[assignment]
    with contextlib.suppress(OSError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, events.fileno())


def _limit(memory_bytes: int) -> None:
    """Let an allocation beyond the limit fail where it is asked for. Where the system has no such limit, the parent
    watches alone.
    """
    try:
        import resource  # noqa: PLC0415  (not on Windows)
    except ImportError:
        return
    kind = getattr(resource, "RLIMIT_DATA", None)
    if kind is not None and sys.platform == "linux":
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(kind, (memory_bytes, memory_bytes))
