"""Writes to the terminal: colour where someone looks, plain text elsewhere, progress on long runs."""

from __future__ import annotations

import os
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from remat.render.terminal import Piece

_PATIENCE = 1.0  # seconds before progress is shown


def emit(pieces: Iterable[Piece], file: TextIO | None = None) -> None:
    """Write styled text; rich is imported only where its styles can be seen."""
    file = file or sys.stdout
    if not coloured(file):
        file.write("".join(piece.text for piece in pieces))
        return
    from rich.console import Console  # noqa: PLC0415  (0.07 s that plain output does not need)
    from rich.text import Text  # noqa: PLC0415

    text = Text.assemble(*((piece.text, piece.style) for piece in pieces), end="")
    Console(file=file, force_terminal=True, highlight=False, soft_wrap=True).print(text, soft_wrap=True, end="")


def coloured(file: TextIO) -> bool:
    """Tell whether to style: as https://no-color.org and FORCE_COLOR ask, else where `file` is a terminal."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (file.isatty() and os.environ.get("TERM") != "dumb")


def warn(message: str) -> None:
    """Tell on standard error what is wrong, in one line."""
    sys.stderr.write(f"remat: {message}\n")


def survive_any_encoding() -> None:
    """Let a character that the terminal cannot show be written as its escape, instead of ending the program."""
    for file in (sys.stdout, sys.stderr):
        if hasattr(file, "reconfigure"):
            file.reconfigure(errors="backslashreplace")


@contextmanager
def progress(total: int) -> Iterator[Callable[[int], None]]:
    """Yield a function to tell how many files were just done. A bar appears on a terminal when it takes long."""
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield lambda _: None
        return
    bar = _Bar(total)
    try:
        yield bar.advance
    finally:
        bar.close()


class _Bar:
    """A bar that comes late and draws only when told: a drawing thread would not survive the forks of a pool."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.done = 0
        self.started = time.monotonic()
        self.draw: Callable[[int], None] | None = None
        self.close: Callable[[], None] = lambda: None

    def advance(self, files: int) -> None:
        self.done += files
        if self.draw is None and time.monotonic() - self.started > _PATIENCE:
            self._open()
        if self.draw is not None:
            self.draw(self.done)

    def _open(self) -> None:
        from rich.console import Console  # noqa: PLC0415  (only long runs show a bar)
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn  # noqa: PLC0415

        columns = (TextColumn("Checking"), BarColumn(), MofNCompleteColumn(), TextColumn("files"))
        shown = Progress(*columns, console=Console(stderr=True), auto_refresh=False, transient=True)
        task = shown.add_task("", total=self.total)
        shown.start()
        self.draw = lambda done: shown.update(task, completed=done, refresh=True)
        self.close = shown.stop
