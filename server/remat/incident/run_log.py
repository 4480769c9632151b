"""The lines of one run, wherever they are: a text, files, folders, and the files that the log calls its own."""

from __future__ import annotations

from dataclasses import dataclass, field
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
    """
    `text` comes before `paths`. `is_wanted` is asked now and then while lines are read.

    `starts`: each file and the number of its first line, once all lines were read. `missed`: what says that a folder
    was not read whole.
    """

    text: str | None
    paths: tuple[str, ...]
    is_wanted: Callable[[], bool] = lambda: True
    missed: tuple[str, ...] = ()
    starts: list[tuple[str, int]] = field(default_factory=list)

    @staticmethod
    def of(text: str | None, paths: Sequence[str], is_wanted: Callable[[], bool] = lambda: True) -> RunLog:
        """Folders stand for the logs in them. Raises FileNotFoundError where one has none, or a path does not exist."""
        files: list[str] = []
        missed: list[str] = []
        for path in paths:
            found = files_of(path, missed.append) if Path(path).is_dir() else [path]
            if not found:
                raise FileNotFoundError(2, "no log files (.log, .txt, .out, .err, error.json) in it", path)
            files += found
        return RunLog(text, tuple(files), is_wanted, tuple(missed))

    def lines(self) -> Iterator[str]:
        """From the first to the last, anew each time. Raises OSError, and Stopped."""
        for number, line in enumerate(self._lines()):
            if number % 4096 == 0 and not self.is_wanted():
                raise Stopped
            yield line

    def _lines(self) -> Iterator[str]:
        before, files = 0, Joined(self.paths)
        for before, line in enumerate(physical(self.text or ""), 1):  # noqa: B007 - counts them
            yield line
        yield from files
        self.starts[:] = [(path, before + first) for path, first in files.starts]


def counted(lines: Iterator[str], count: list[int]) -> Iterator[str]:
    """The same lines; afterwards `count` holds how many they were."""
    number = 0
    for number, line in enumerate(lines, 1):  # noqa: B007 - what is left of it is the answer
        yield line
    count.append(number)
