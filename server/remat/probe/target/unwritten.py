"""Lets expressions of the user's be evaluated without changing a file, starting a process or asking a network."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_CHANGING = {
    "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.link", "os.symlink", "os.truncate", "shutil.rmtree",
    "shutil.move", "shutil.copyfile", "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork",
}  # fmt: skip
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

_state = {"installed": False, "strict": 0}


@contextlib.contextmanager
def nothing_written() -> Iterator[None]:
    """Inside it, what would change a file or start a process raises PermissionError."""
    if not _state["installed"]:
        with contextlib.suppress(ImportError):
            importlib.import_module("torch._dynamo")  # it makes folders as it is imported, and can't be imported twice
        sys.addaudithook(_refuse)
        _state["installed"] = True
    _state["strict"] += 1
    try:
        yield
    finally:
        _state["strict"] -= 1


def _refuse(event: str, args: tuple[object, ...]) -> None:
    if not _state["strict"]:
        return
    if event in _CHANGING or (event == "open" and _writes(args)):
        what = f"{event} {args[0]}" if args else event
        raise PermissionError(f"while the probe looks at how a model is made, nothing is written ({what})")


def _writes(args: tuple[object, ...]) -> bool:
    path, mode, flags = args
    if str(path).startswith("/dev/") or "__pycache__" in str(path):
        return False
    opened = isinstance(mode, str) and any(letter in mode for letter in "wax+")
    return opened or (isinstance(flags, int) and mode is None and bool(flags & _WRITING))
