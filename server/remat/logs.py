"""Opening what `remat diagnose` is given: files, standard input, and folders that torchrun --log-dir wrote."""

from __future__ import annotations

import codecs
import io
import json
import re
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from remat import flight_recorder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

STDIN = "-"
_RANK_FOLDER = re.compile(r"attempt_(?P<attempt>\d+)/(?P<rank>\d+)/(?:(?:stdout|stderr)\.log|error\.json)$")
_LOCAL_RANK = re.compile(r"/(\d+)/[^/]+$")
_AGAIN = "remat: the files below are of the next attempt: restarting worker group\n"
_NAMES = (".log", ".txt", ".out", ".err", ".jsonl", "error.json")


@dataclass(slots=True)
class Joined:
    """The lines of several files as one run. `starts`: each file, and the number of its first line in the whole."""

    paths: Sequence[str]
    starts: list[tuple[str, int]] = field(default_factory=list)

    def __iter__(self) -> Iterator[str]:
        number, attempt = 1, ""
        for path in self.paths:
            before, attempt = attempt, _attempt(path)
            if before and attempt and before != attempt:
                yield _AGAIN
                number += 1
            self.starts.append((path, number))
            prefix = _prefix(path)
            with opened(path) as lines:
                for line in lines:
                    yield prefix + line
                    number += 1


@contextmanager
def opened(path: str) -> Iterator[Iterator[str]]:
    """Lines of a file or of standard input, whatever bytes they hold. Raises OSError."""
    if path == STDIN:
        yield io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8", errors="replace", newline="\n")
        return
    if flight_recorder.is_dump(path):
        yield flight_recorder.lines(path)
        return
    with Path(path).open("rb") as file:
        head = file.read(2)
        encoding = "utf-16" if head in {codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE} else "utf-8-sig"
        file.seek(0)
        text = io.TextIOWrapper(file, encoding=encoding, errors="replace", newline="\n")
        yield _callstack(text) if path.endswith("error.json") else text


def files_of(path: str) -> list[str]:
    """The logs below a folder, those of the first attempt and of the lowest rank first."""
    found = [
        p for p in Path(path).rglob("*") if p.is_file() and (p.name.endswith(_NAMES) or flight_recorder.is_dump(p.name))
    ]
    return [str(p) for p in sorted(found, key=lambda p: [_natural(part) for part in p.parts])]


def _natural(part: str) -> tuple[int, str]:
    if part == "stdout.log":
        return -2, part  # before stderr.log: what a rank printed before it failed must not read as if it went on
    return (int(part), "") if part.isdigit() else (-1, part)


def _prefix(path: str) -> str:
    """The rank that torchrun wrote into the file's path, as it would stand before a line."""
    posix = Path(path).as_posix()
    if _RANK_FOLDER.search(posix) is None:
        return ""
    match = _LOCAL_RANK.search(posix)
    return f"[default{match[1]}]:" if match is not None else ""


def _attempt(path: str) -> str:
    match = _RANK_FOLDER.search(Path(path).as_posix())
    return match["attempt"] if match is not None else ""


def _callstack(lines: Iterator[str]) -> Iterator[str]:
    """The traceback inside an error file of torch.distributed.elastic, each line with the time that the rank wrote."""
    text = "".join(lines)
    stamp = ""
    try:
        message = json.loads(text)["message"]
        if isinstance(message, str):
            stack = message
        else:
            stack = message["extraInfo"]["py_callstack"] or message["message"]
            stamp = _stamp(message["extraInfo"].get("timestamp"))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        stack = text
    for line in str(stack).splitlines():
        yield f"{stamp}{line}\n"


def _stamp(seconds: object) -> str:
    """Whole seconds since 1970, as torch writes them, before a line."""
    try:
        moment = datetime.fromtimestamp(int(str(seconds)), tz=timezone.utc)
    except (ValueError, OverflowError, OSError):
        return ""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ ")
