"""What one file gave, with the rows and columns that every format prints."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from remat.finding import Finding

_LINE_END = re.compile(r"\r\n|\n|\r")  # what ends a line of Python; a form feed does not


@dataclass(frozen=True, slots=True)
class Report:
    """The findings of one file. `path` is absolute, `shown` is how its user would name it."""

    path: str
    shown: str
    text: str
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Lines:
    """A text cut into its lines; rows and columns count from 1, columns in code points."""

    text: str
    starts: tuple[int, ...]

    @staticmethod
    def of(text: str) -> Lines:
        return Lines(text, (0, *(match.end() for match in _LINE_END.finditer(text))))

    def position(self, offset: int) -> tuple[int, int]:
        row = bisect_right(self.starts, offset)
        return row, offset - self.starts[row - 1] + 1

    def bounds(self, row: int) -> tuple[int, int]:
        """Return the offsets between which a line stands, without its end; the line itself may be a megabyte long."""
        start = self.starts[row - 1]
        end = self.starts[row] if row < len(self.starts) else len(self.text)
        while end > start and self.text[end - 1] in "\r\n":
            end -= 1
        return start, end
