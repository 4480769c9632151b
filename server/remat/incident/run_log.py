"""The lines of one run, wherever they are: a text, files, folders, and the files that the log calls its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from remat.diagnose.log import physical
from remat.logs import Joined, files_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


class Stopped(Exception):  # noqa: N818 - nothing went wrong
    """Nobody waits for the answer any more."""


@dataclass(frozen=True, slots=True)
class RunLog:
    """`text` comes before `paths`. `is_wanted` is asked now and then while lines are read."""

    text: str | None
    paths: tuple[str, ...]
    is_wanted: Callable[[], bool] = lambda: True

    @staticmethod
    def of(text: str | None, paths: Sequence[str], is_wanted: Callable[[], bool] = lambda: True) -> RunLog:
        """Folders stand for the logs in them. Raises FileNotFoundError where one has none, or a path does not exist."""
        files: list[str] = []
        for path in paths:
            found = files_of(path) if Path(path).is_dir() else [path]
            if not found:
                raise FileNotFoundError(2, "no log files (.log, .txt, .out, .err, error.json) in it", path)
            files += found
        return RunLog(text, tuple(files), is_wanted)

    def lines(self) -> Iterator[str]:
        """From the first to the last, anew each time. Raises OSError, and Stopped."""
        for number, line in enumerate(self._lines()):
            if number % 4096 == 0 and not self.is_wanted():
                raise Stopped
            yield line

    def _lines(self) -> Iterator[str]:
        yield from physical(self.text or "")
        yield from Joined(self.paths)


def counted(lines: Iterator[str], count: list[int]) -> Iterator[str]:
    """The same lines; afterwards `count` holds how many they were."""
    number = 0
    for number, line in enumerate(lines, 1):  # noqa: B007 - what is left of it is the answer
        yield line
    count.append(number)
