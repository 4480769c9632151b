"""Cuts Python text into pieces that parse alone: top-level statements, and a long class into its members.

A missed boundary only makes a larger piece; a wrong one would tear a statement, so the doubtful ones are not taken.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from remat.lint.strings import STRING

if TYPE_CHECKING:
    from collections.abc import Callable

LONG_CLASS = 1500  # characters, about 40 lines or 2.5 ms of parsing; a shorter class stays whole
MANY_UNCLOSED = 50  # each unclosed quote costs a look at the rest of the text; what follows them stays one piece

_FLAT = r"""\([^()\[\]{}'"#\n\\]*\)|\[[^()\[\]{}'"#\n\\]*\]|\{[^()\[\]{}'"#\n\\]*\}"""  # brackets on one line
_GOES_ON = re.compile(r"(?:else|elif|except|finally)\b")
_NEVER_IN_BRACKETS = re.compile(r"(?:def|class|import|from|with|while|try|return|raise|del|assert|pass|global)\b")
_BLANK = re.compile(r"[ \t]*")
_CLASS = re.compile(r"class\b")


class Role(Enum):
    STATEMENT = "module statement"
    CLASS = "head of a class with its first member"
    MEMBER = "further member of the class above"


@dataclass(frozen=True, slots=True)
class Piece:
    start: int
    end: int
    role: Role


def split(text: str, before: tuple[str, list[Piece]] | None = None) -> list[Piece]:
    """The pieces of `text`, which partition it.

    `before` (the previous text and its pieces) keeps the pieces an edit did not touch while a quote or bracket is open.
    """
    pieces, clean = _pieces(text, 0, len(text)) if text else ([], True)
    if clean or before is None:
        return pieces
    old, kept = before
    head, tail = common(old, text)
    top = [p for p in kept if p.end <= head and not (p.end == head == len(old))]
    shift = len(text) - len(old)
    rest = [p for p in kept[len(top) :] if p.start >= len(old) - tail]
    touched = kept[len(top) : len(kept) - len(rest)]
    start = top[-1].end if top else 0
    end = rest[0].start + shift if rest else len(text)
    middle = _resplit(text, start, end, touched, rest) if start < end else []
    return [*top, *middle, *(Piece(p.start + shift, p.end + shift, p.role) for p in rest)]


def common(a: str, b: str) -> tuple[int, int]:
    """Lengths of the common start and of the common end, which does not overlap it."""
    head = _longest(lambda n: a[:n] == b[:n], min(len(a), len(b)))
    return head, _longest(lambda n: not n or a[-n:] == b[-n:], min(len(a), len(b)) - head)


def _longest(equal: Callable[[int], bool], limit: int) -> int:
    low = 0
    while low < limit:
        middle = (low + limit + 1) // 2
        low, limit = (middle, limit) if equal(middle) else (low, middle - 1)
    return low


def _resplit(text: str, start: int, end: int, touched: list[Piece], rest: list[Piece]) -> list[Piece]:
    if touched and all(p.role is Role.MEMBER for p in touched):
        indent = re.escape(text[start : start + _width(text, start)])
        starts = [at for at, _ in _statements(text, start, end, indent)[0]]
        return [Piece(a, b, Role.MEMBER) for a, b in pairwise([*starts, end])]
    middle = _pieces(text, start, end)[0]
    if rest and rest[0].role is Role.MEMBER and middle[-1].role is Role.STATEMENT:
        middle[-1] = Piece(middle[-1].start, middle[-1].end, Role.CLASS)
    return middle


@lru_cache(64)
def _scanner(indent: str) -> re.Pattern[str]:
    """Skip all that cannot matter in one go. It never backtracks: whatever stops the loop is one of the endings.

    No `re.X` around the indent: it would drop a literal one.
    """
    line = rf"{indent}[^\s#)\]}}]"
    skip = (
        rf"""(?:[^#"'()\[\]{{}}\\\n]+|\n(?!{line})|\\(?:\r?\n)?|#[^\n]*"""
        rf"|{STRING}|{_FLAT})*"
    )
    stop = rf"""(?:(\n(?={line}))|([(\[{{])|([)\]}}])|(\"\"\"|'''|["'][^\n]*)|\Z)"""
    return re.compile(skip + stop, re.DOTALL)


def _lines(text: str, start: int, end: int, indent: str) -> tuple[list[int], bool]:
    """Where logical lines with this indentation start, and whether every quote and bracket is closed."""
    found: list[int] = []
    depth, unclosed, clean = 0, 0, True
    for match in _scanner(indent).finditer(text, start, end):
        kind = match.lastindex
        if kind == 1:
            at = match.end()
            if depth and _NEVER_IN_BRACKETS.match(text, at + _width(text, at)):
                depth, clean = 0, False
            if not depth:
                found.append(at)
        elif kind == 2:
            depth += 1
        elif kind == 3:
            depth, clean = max(depth - 1, 0), clean and depth > 0
        elif kind == 4:
            unclosed += 1
            if unclosed == MANY_UNCLOSED:
                break
    return found, clean and not depth and not unclosed


def _width(text: str, at: int) -> int:
    blank = _BLANK.match(text, at)
    return blank.end() - at if blank else 0


def _statements(text: str, start: int, end: int, indent: str) -> tuple[list[tuple[int, int]], bool]:
    """(start, start of the keyword after its decorators) of each statement with this indentation."""
    lines, clean = _lines(text, start, end, indent)
    found, decorated = [(start, start)], text.startswith("@", start + _width(text, start))
    for at in lines:
        word = at + _width(text, at)
        if decorated:
            found[-1] = (found[-1][0], word)
        elif not _GOES_ON.match(text, word):
            found.append((at, word))
        decorated = text.startswith("@", word)
    return found, clean


def _members(text: str, keyword: int, end: int) -> list[int]:
    """Where the second and later members of a class start; the head keeps the first so that it parses."""
    body = next(iter(_lines(text, keyword, min(end, keyword + 2000), r"[ \t]+")[0]), None)
    if body is None:
        return []
    indent = re.escape(text[body : body + _width(text, body)])
    return [at for at, _ in _statements(text, body, end, indent)[0][1:]]


def _pieces(text: str, start: int, end: int) -> tuple[list[Piece], bool]:
    statements, clean = _statements(text, start, end, "")
    pieces: list[Piece] = []
    for (at, keyword), (stop, _) in pairwise([*statements, (end, end)]):
        cuts = _members(text, keyword, stop) if stop - at > LONG_CLASS and _CLASS.match(text, keyword) else []
        roles = [Role.CLASS if cuts else Role.STATEMENT, *[Role.MEMBER] * len(cuts)]
        bounds = pairwise([at, *cuts, stop])
        pieces += [Piece(a, b, role) for (a, b), role in zip(bounds, roles, strict=True)]
    return pieces, clean
