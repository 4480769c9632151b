"""Cuts Python text into pieces that parse alone: top-level statements, and a long class into its members.

A missed boundary only makes a larger piece; a wrong one would tear a statement, so the doubtful ones are not taken.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from remat.lint.code.strings import STRING

if TYPE_CHECKING:
    from collections.abc import Callable, Container

LONG_CLASS = 1500  # characters, about 40 lines or 2.5 ms of parsing; a shorter class stays whole
LOOKAHEAD = 16  # characters; the longest word that a boundary hangs on has seven
_BLOCK = 4096
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

    # Members are singletons. Enum's own hash is Python code, and roles are hashed for each piece at each edit.
    __hash__ = object.__hash__


class Piece(NamedTuple):
    """A tuple, since an edit moves thousands: a frozen dataclass takes three times as long to make."""

    start: int
    end: int
    role: Role


@dataclass(frozen=True, slots=True)
class Cut:
    """A text with the pieces that partition it. `clean`: every quote and bracket is closed."""

    text: str
    pieces: list[Piece]
    clean: bool
    earlier: Cut | None = None  # of a cut that is not clean: the last one that was

    @property
    def last_clean(self) -> Cut | None:
        return self if self.clean else self.earlier


def split(text: str) -> list[Piece]:
    """The pieces of `text`, which partition it."""
    return cut(text).pieces


def cut(text: str, before: Cut | None = None) -> Cut:
    """Cut `text`, from an earlier version where it is given: only around the edit is the text read again.

    While a quote or bracket is open, the pieces that the edit did not touch stay what they were.
    """
    clean_before = before.last_clean if before else None
    if before and clean_before:
        return _around_the_edit(text, clean_before) or Cut(text, _kept(text, before), clean=False, earlier=clean_before)
    pieces, clean = _pieces(text, 0, len(text))
    return Cut(text, pieces if clean or before is None else _kept(text, before), clean)


def _around_the_edit(text: str, before: Cut) -> Cut | None:
    """Read on from the statement before the edit until a statement begins where one began before, then as before.

    None where that does not happen with all quotes and brackets closed.
    """
    head, tail = common(before.text, text)
    shift = len(text) - len(before.text)
    tops = [i for i, p in enumerate(before.pieces) if p.role is not Role.MEMBER]
    # A boundary hangs on the word that follows it, so one that the edit all but touches is looked at again.
    first = max(bisect_right(tops, head - LOOKAHEAD, key=lambda i: before.pieces[i].start) - 2, 0)
    start = before.pieces[tops[first]].start if tops else 0
    same = {before.pieces[i].start + shift: i for i in tops if before.pieces[i].start >= len(before.text) - tail}
    statements, clean, end = _statements(text, start, len(text), "", same)
    if not clean:
        return None
    kept = before.pieces[same[end] :] if end < len(text) else []
    rest = [Piece(p.start + shift, p.end + shift, p.role) for p in kept] if shift else kept
    return Cut(text, [*before.pieces[: tops[first] if tops else 0], *_roles(text, statements, end), *rest], clean=True)


def _kept(text: str, before: Cut) -> list[Piece]:
    """The pieces of an unclean text, those that the edit did not touch as they were."""
    head, tail = common(before.text, text)
    top = [p for p in before.pieces if p.end <= head and not (p.end == head == len(before.text))]
    shift = len(text) - len(before.text)
    rest = [p for p in before.pieces[len(top) :] if p.start >= len(before.text) - tail]
    touched = before.pieces[len(top) : len(before.pieces) - len(rest)]
    start = top[-1].end if top else 0
    end = rest[0].start + shift if rest else len(text)
    middle = _resplit(text, start, end, touched, rest) if start < end else []
    return [*top, *middle, *(Piece(p.start + shift, p.end + shift, p.role) for p in rest)]


def common(a: str, b: str) -> tuple[int, int]:
    """Lengths of the common start and of the common end, which does not overlap it."""
    limit = min(len(a), len(b))
    head = _longest(lambda low, high: a[low:high] == b[low:high], limit)
    x, y = len(a), len(b)
    return head, _longest(lambda low, high: a[x - high : x - low] == b[y - high : y - low], limit - head)


def _longest(equal: Callable[[int, int], bool], limit: int) -> int:
    """How many characters are equal from one side, up to `limit`: by blocks that grow, then by halves of the last."""
    low, block = 0, _BLOCK
    while low + block <= limit and equal(low, low + block):
        low += block
        block *= 2
    high = min(low + block, limit)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if equal(low, middle) else (low, middle - 1)
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


def _lines(text: str, start: int, end: int, indent: str, same: Container[int] = ()) -> tuple[list[int], bool, int]:
    """Where logical lines with this indentation start, whether all quotes and brackets are closed, and where it ended.

    With `same` it ends early: at one of these offsets, if all is closed there and a statement begins; or not clean.
    """
    found: list[int] = []
    depth, unclosed, clean = 0, 0, True
    for match in _scanner(indent).finditer(text, start, end):
        kind = match.lastindex
        if kind == 1:
            at = match.end()
            if depth and _NEVER_IN_BRACKETS.match(text, at + _width(text, at)):
                depth, clean = 0, False
            if not depth:
                if at in same and clean and not unclosed and _begins(text, at, found[-1] if found else start):
                    return found, True, at
                found.append(at)
        elif kind == 2:
            depth += 1
        elif kind == 3:
            depth, clean = max(depth - 1, 0), clean and depth > 0
        elif kind == 4:
            unclosed += 1
            if unclosed == MANY_UNCLOSED:
                break
        if same and (unclosed or not clean):
            return found, False, end  # what is open or stray now stays so
    return found, clean and not depth and not unclosed, end


def _begins(text: str, at: int, previous: int) -> bool:
    """Whether a statement begins at `at`: its line neither goes on with the one before nor belongs to a decorator."""
    return not text.startswith("@", previous) and not _GOES_ON.match(text, at)


def _width(text: str, at: int) -> int:
    blank = _BLANK.match(text, at)
    return blank.end() - at if blank else 0


def _statements(
    text: str, start: int, end: int, indent: str, same: Container[int] = ()
) -> tuple[list[tuple[int, int]], bool, int]:
    """(start, start of the keyword after decorators) of each statement with this indentation; the rest as `_lines`."""
    lines, clean, ended = _lines(text, start, end, indent, same)
    found, decorated = [(start, start)], text.startswith("@", start + _width(text, start))
    for at in lines:
        word = at + _width(text, at)
        if decorated:
            found[-1] = (found[-1][0], word)
        elif not _GOES_ON.match(text, word):
            found.append((at, word))
        decorated = text.startswith("@", word)
    return found, clean, ended


def _members(text: str, keyword: int, end: int) -> list[int]:
    """Where the second and later members of a class start; the head keeps the first so that it parses."""
    body = next(iter(_lines(text, keyword, min(end, keyword + 2000), r"[ \t]+")[0]), None)
    if body is None:
        return []
    indent = re.escape(text[body : body + _width(text, body)])
    return [at for at, _ in _statements(text, body, end, indent)[0][1:]]


def _pieces(text: str, start: int, end: int) -> tuple[list[Piece], bool]:
    if start == end:
        return [], True
    statements, clean, _ = _statements(text, start, end, "")
    return _roles(text, statements, end), clean


def _roles(text: str, statements: list[tuple[int, int]], end: int) -> list[Piece]:
    """The pieces of these statements, long classes cut into their members."""
    pieces: list[Piece] = []
    for (at, keyword), (stop, _) in pairwise([*statements, (end, end)]):
        cuts = _members(text, keyword, stop) if stop - at > LONG_CLASS and _CLASS.match(text, keyword) else []
        roles = [Role.CLASS if cuts else Role.STATEMENT, *[Role.MEMBER] * len(cuts)]
        bounds = pairwise([at, *cuts, stop])
        pieces += [Piece(a, b, role) for (a, b), role in zip(bounds, roles, strict=True)]
    return pieces
