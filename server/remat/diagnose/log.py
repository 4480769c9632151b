"""Physical lines of a log, whatever was done to them: hard wraps, control sequences, carriage returns, JSON."""

from __future__ import annotations

import json
import re
from itertools import chain, islice, pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_CONTROL = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_BAR = re.compile(r"\d+%\|[^|\r]{0,400}\|[^\[\r]{0,80}\[[^\]\r]{0,120}\]")
_BARE_BAR = re.compile(r"^[^|\r]{0,80}\|\s*\d+/\d+ \[[^\]\r]{0,120}\]")
_INTO = re.compile(r"(?<=\S)(?=\[rank\d{1,6}\]: )")  # where a rank wrote into another's line
_ESCAPED = '\\n  File "'  # a traceback in a string that was printed as Python writes it
WIDTHS = (80, 100, 120, 132, 160)
_LOOK_AHEAD = 400
_LONGEST = 20_000  # a longer line is cut: no message is, and regexes stay quick


def physical(log: str | Iterable[str]) -> Iterator[str]:
    """Lines without their ends. A text is split at line feeds only; other separators belong to the line."""
    if isinstance(log, str):
        start = 0
        while (end := log.find("\n", start)) >= 0:
            yield log[start:end]
            start = end + 1
        if start < len(log):
            yield log[start:]
    else:
        for line in log:
            yield line.removesuffix("\n")


def numbered(log: str | Iterable[str]) -> tuple[Iterator[tuple[int, str]], list[str]]:
    """Each logical line with the number of its first physical line, and the first lines to learn prefixes from."""
    lines = physical(log)
    ahead = list(islice(lines, _LOOK_AHEAD))
    every = enumerate(chain(ahead, lines), 1)
    width = _wrapped_at(ahead)
    return (_unwrapped(every, width) if width else every), ahead


def _wrapped_at(lines: list[str]) -> int | None:
    """
    The column at which a terminal cut every line, if one did.

    Nothing is longer, and at least two different lines are exactly that long; rulers do not count, and neither do lines
    that somebody padded to the width (rich draws tables and tracebacks so).
    """
    lines = [line.rstrip("\r") for line in lines]
    longest = max(map(len, lines), default=0)
    full = {line for line in lines if len(line) == longest and len(set(line)) > 3}
    cut = {line for line in full if line[-1] not in " \u2502\u2503\u256e\u256f|"}
    return longest if longest in WIDTHS and len(cut) >= 2 and 2 * len(cut) > len(full) else None


def _unwrapped(lines: Iterable[tuple[int, str]], width: int) -> Iterator[tuple[int, str]]:
    first, text = 0, ""
    for number, raw in lines:
        line = raw.rstrip("\r")
        text = text + line if first else line
        first = first or number
        if len(line) == width and len(text) < _LONGEST:
            continue
        yield first, text
        first = 0
    if first:
        yield first, text


def pieces(line: str) -> list[str]:
    """What a person saw of this line: without colours, one piece for each carriage return or progress bar."""
    if len(line) > _LONGEST:
        line = line[:_LONGEST]
    if line.startswith('{"log"'):
        line = _from_json(line)
    if "\x1b" in line:
        line = _CONTROL.sub("", line)
    line = line.rstrip("\r\n")
    parts = [part for part in line.split("\r") if part] if "\r" in line else [line]
    if _ESCAPED in line and line.lstrip()[:1] not in "\u2502\u2514":  # what loguru draws below a frame is cut short
        parts = [piece for part in parts for piece in part.split("\\n")]
    if line.find("[rank", 1) > 0:
        parts = [piece for part in parts for piece in _INTO.split(part)]
    if "%|" not in line and "it/s]" not in line:
        return parts
    return [piece for part in parts for piece in _around_bars(part)]


def _around_bars(part: str) -> list[str]:
    ends = [0, *(bar.end() for bar in _BAR.finditer(part)), len(part)]
    if len(ends) == 2 and (bar := _BARE_BAR.match(part)):
        ends = [0, bar.end(), len(part)]
    return [part[a:b] for a, b in pairwise(ends) if b > a] or [part]


def _from_json(line: str) -> str:
    """The text of a line of docker's json-file driver."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return line
    text = record.get("log") if isinstance(record, dict) else None
    return text.rstrip("\n") if isinstance(text, str) else line
