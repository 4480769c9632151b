"""Code-point offsets to an editor's lines and columns and back: the only place that knows UTF-8, UTF-16, UTF-32."""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from io import StringIO
from itertools import accumulate
from typing import TYPE_CHECKING

from lsprotocol.types import Position, PositionEncodingKind, Range

from remat.finding import Span

if TYPE_CHECKING:
    from collections.abc import Sequence

_CODECS = {PositionEncodingKind.Utf8: ("utf-8", 1), PositionEncodingKind.Utf16: ("utf-16-le", 2)}


def split_lines(text: str) -> list[str]:
    r"""Split as the protocol does: at \n, \r\n and \r only, ends kept; what follows the last one is a line, too.

    `str.splitlines` also splits at form feeds, NEL, U+2028 and more, and would put each later edit into a wrong line.
    """
    lines = list(StringIO(text, newline=""))
    if not lines or lines[-1].endswith(("\n", "\r")):
        lines.append("")
    return lines


def units(text: str, encoding: PositionEncodingKind | str) -> int:
    """The length of `text` in the units that the editor counts columns in."""
    if text.isascii() or encoding not in _CODECS:
        return len(text)
    codec, size = _CODECS[PositionEncodingKind(encoding)]
    return len(text.encode(codec, "surrogatepass")) // size  # JSON can carry lone surrogates


def code_points(line: str, column: int, encoding: PositionEncodingKind | str) -> int:
    """The index in `line` at an editor's column; behind the line's end it is the end, inside a character its start."""
    body = line.rstrip("\r\n")
    if body.isascii() or encoding not in _CODECS:
        return min(column, len(body))
    return bisect_right(range(len(body) + 1), column, key=lambda n: units(body[:n], encoding)) - 1


class Lines:
    """The lines of one version of a text, for an editor that counts columns in `encoding`."""

    def __init__(self, lines: Sequence[str], encoding: PositionEncodingKind | str) -> None:
        self.lines, self.encoding = lines, encoding

    @cached_property
    def starts(self) -> list[int]:
        return [0, *accumulate(map(len, self.lines))]

    def offset(self, position: Position) -> int:
        """Where an editor's position lies; one behind the text is its end."""
        if position.line >= len(self.lines):
            return self.starts[-1]
        line = self.lines[position.line]
        return self.starts[position.line] + code_points(line, position.character, self.encoding)

    def position(self, offset: int) -> Position:
        line = min(bisect_right(self.starts, offset), len(self.lines)) - 1
        return Position(line, units(self.lines[line][: offset - self.starts[line]], self.encoding))

    def range(self, span: Span) -> Range:
        return Range(self.position(span.start), self.position(span.end))

    def span(self, place: Range) -> Span:
        start, end = sorted((self.offset(place.start), self.offset(place.end)))
        return Span(start, end)
