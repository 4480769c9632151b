"""Which lines of a long log can mean something: those that hold a text that some pattern needs."""

from __future__ import annotations

from bisect import bisect_right
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


def telling(lines: list[str], text: str) -> set[int]:
    """The indices of the lines with a needle in them; `text` is the lines joined by line feeds."""
    starts = [0, *accumulate([len(line) + 1 for line in lines])]
    found: set[int] = set()
    for needle in NEEDLES:
        at = text.find(needle)
        while at >= 0:
            index = bisect_right(starts, at) - 1
            found.add(index)
            at = text.find(needle, starts[index + 1])
    return found
