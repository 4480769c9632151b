"""How Python strings and comments look to a regular expression that never backtracks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

STRING = (
    r'"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*"""'
    r"|'''[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*'''"
    r'|(?!""")"[^"\\\n]*(?:\\(?:\r\n|.)[^"\\\n]*)*"'
    r"|(?!''')'[^'\\\n]*(?:\\(?:\r\n|.)[^'\\\n]*)*'"
)
_COMMENT_OR_STRING = re.compile(rf"(#[^\r\n]*)|{STRING}", re.DOTALL)


def comments(text: str, start: int, end: int) -> Iterator[tuple[int, str]]:
    """(offset, text) of each comment between `start`, which must not lie in a string, and `end`."""
    for match in _COMMENT_OR_STRING.finditer(text, start, end):
        if match[1]:
            yield match.start(), match[1]


def in_string(text: str, start: int, at: int) -> bool:
    """Whether offset `at` lies inside a string. `start`, before it, must not."""
    for match in _COMMENT_OR_STRING.finditer(text, start):
        if match.end() > at:
            return not match[1] and match.start() < at
    return False
