"""Where the user's code was, from the frames that Python itself printed of a process that hangs or crashed."""

from __future__ import annotations

import re
from pathlib import Path

from remat.probe.messages import Location

_OWN = str(Path(__file__).parent)
_FRAME = re.compile(r'^  File "(?P<path>[^"]+)", line (?P<line>\d+)', re.MULTILINE)
_LIBRARY = re.compile(r"[\\/](site-packages|dist-packages)[\\/]|[\\/]lib[\\/]python3[^\\/]*[\\/]|^<")


def user_line(text: str) -> Location | None:
    """Read the last list of frames, which is the main thread's, for the innermost that is the user's."""
    begin = max(text.rfind("(most recent call first)"), 0)
    for match in _FRAME.finditer(text, begin):
        path = match["path"]
        if not _LIBRARY.search(path) and not path.startswith(_OWN):
            return Location(path, int(match["line"]))
    return None
