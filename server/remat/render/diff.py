"""A unified diff of one file, as bytes in the file's own encoding so that `patch` can apply it."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_LINES = re.compile(r"[^\n]*\n|[^\n]+")  # as `patch` counts lines


def unified(before: str, after: str, name: str, encoding: str) -> bytes:
    lines = difflib.unified_diff(_LINES.findall(before), _LINES.findall(after), name, name)
    return b"".join(_encoded(lines, encoding))


def _encoded(lines: Iterator[str], encoding: str) -> Iterator[bytes]:
    for number, line in enumerate(lines):
        if number < 2:  # the file's name, which may be bytes that are no text
            yield line.encode("utf-8", "surrogateescape")
        else:
            yield line.encode(encoding)
            if not line.endswith("\n"):
                yield b"\n\\ No newline at end of file\n"
