"""What the server writes into the editor's log: one line per event, and one per unexpected error."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

from lsprotocol.types import LogMessageParams, MessageType

from remat.links import REPORT

if TYPE_CHECKING:
    from collections.abc import Callable

LEVELS = {
    "error": MessageType.Error,
    "warning": MessageType.Warning,
    "info": MessageType.Info,
    "debug": MessageType.Log,  # what LSP 3.17 has below Info; editors show it as debug
}


class Log:
    """`send` must be called by the thread that owns the connection."""

    def __init__(self, send: Callable[[LogMessageParams], None]) -> None:
        self._send = send
        self.level = "info"

    def write(self, level: str, message: str) -> None:
        if LEVELS[level] <= LEVELS[self.level]:
            self._send(LogMessageParams(LEVELS[level], message))

    def unexpected(self, error: BaseException, doing: str) -> None:
        self.write("error", f"unexpected error while {doing}: {one_line(error)}; {REPORT}")


def one_line(error: BaseException) -> str:
    """What was raised, and where."""
    what = " ".join("".join(traceback.format_exception_only(error)).split())
    frames = traceback.extract_tb(error.__traceback__)
    return f"{what} ({frames[-1].filename}:{frames[-1].lineno} in {frames[-1].name})" if frames else what
