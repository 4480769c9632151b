"""Which lines of a long log can mean something: those that hold a text that some pattern needs."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import accumulate

from remat.diagnose.notices import MARKS
from remat.diagnose.signatures import BARE_WORDS

_IN_LISTS = {mark.needle for mark in MARKS if mark.name.startswith("entry_")}  # read where a list is read
_SHARED = ("ignal", "exitcode", "erminate", "atchdog", "Kill", "failed", "CUDA capab", "loss scale", "mismatch")
_TRACEBACKS = ("Traceback", "Error", "Fatal Python", "xception", "nterrupt", "$ ", "# ")
_WANTED = (*_TRACEBACKS, *_SHARED, *sorted({*(mark.needle for mark in MARKS), *BARE_WORDS} - _IN_LISTS))
NEEDLES = tuple(
    dict.fromkeys(one for one in _WANTED if not any(other in one for other in _WANTED if other != one))
)  # a longer one is found where the shorter one in it is
_NO_DIGITS = {ord(digit): None for digit in "0123456789"}
_SHAPES = tuple(dict.fromkeys(needle.translate(_NO_DIGITS) for needle in NEEDLES))
_MOST_SHAPES = 20_000


@dataclass(slots=True)
class Sieve:
    """
    Finds the lines that can mean something, and remembers the shapes of lines: most differ only in their numbers.

    A line that tells something is always found; one that tells nothing may be, where only a number parts the two.
    """

    dull: set[str] = field(default_factory=set)
    telling: set[str] = field(default_factory=set)

    def found(self, lines: list[str]) -> set[int]:
        """The indices of the lines with a needle in them. No line holds a line feed."""
        shapes = "\n".join(lines).translate(_NO_DIGITS).split("\n")
        if len(self.dull) + len(self.telling) > _MOST_SHAPES:
            self.dull.clear()
            self.telling.clear()
        new = [*(set(shapes) - self.dull - self.telling)]
        at = _with_needles(new)
        self.telling.update(new[index] for index in at)
        self.dull.update(shape for index, shape in enumerate(new) if index not in at)
        return {index for index, shape in enumerate(shapes) if shape in self.telling}


def _with_needles(shapes: list[str]) -> set[int]:
    text = "\n".join(shapes)
    starts = [0, *accumulate([len(shape) + 1 for shape in shapes])]
    found: set[int] = set()
    for needle in _SHAPES:
        at = text.find(needle)
        while at >= 0:
            index = bisect_right(starts, at) - 1
            found.add(index)
            at = text.find(needle, starts[index + 1])
    return found
