"""Opening what `remat diagnose` is given: files, standard input, and folders that torchrun --log-dir wrote."""

from __future__ import annotations

import codecs
import io
import json
import os
import re
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from remat import flight_recorder
from remat.files import DEFAULT_EXCLUDES, ENVIRONMENT_MARKS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

STDIN = "-"
_RANK_FOLDER = re.compile(r"attempt_(?P<attempt>\d+)/(?P<rank>\d+)/(?:(?:stdout|stderr)\.log|error\.json)$")
_LOCAL_RANK = re.compile(r"/(\d+)/[^/]+$")
_AGAIN = "remat: the files below are of the next attempt: restarting worker group\n"
_NAMES = (".log", ".out", ".err", "error.json")
_TEXTS = (".txt", ".jsonl")  # logs only where they stand in the folder given, or are named like logs: data sets are not
_NAMED_LIKE_LOGS = re.compile(r"(?i)(?<![a-z])(?:std(?:out|err)|log|rank|slurm|attempt)")
_MOST_ENTRIES = 50_000  # files and folders that are looked at


@dataclass(slots=True)
class Joined:
    """The lines of several files as one run. `starts`: each file, and the number of its first line in the whole."""

    paths: Sequence[str]
    starts: list[tuple[str, int]] = field(default_factory=list)

    def __iter__(self) -> Iterator[str]:
        number, attempt = 1, ""
        bases = {base for path in self.paths if (base := _base(path)) is not None}
        for path in self.paths:
            before, attempt = attempt, _attempt(path)
            if before and attempt and before != attempt:
                yield _AGAIN
                number += 1
            self.starts.append((path, number))
            prefix = _prefix(path) if len(bases) < 2 else _process(path)
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


def files_of(path: str, tell: Callable[[str], None] = lambda _: None) -> list[str]:
    """The logs below a folder, those of the first attempt and of the lowest rank first. `tell` hears what is missed."""
    found, left = [], _MOST_ENTRIES
    for folder, folders, names in os.walk(path):
        marked = folder != path and not {*names, *folders}.isdisjoint(ENVIRONMENT_MARKS)
        folders[:] = [] if marked else sorted({*folders} - DEFAULT_EXCLUDES)
        if left < len(names) + len(folders):
            tell(f"{path}: only the first {_MOST_ENTRIES} files and folders in it were looked at; name a folder below")
            break
        left -= len(names) + len(folders)
        if not marked:
            here = Path(folder)
            found += [
                here / name for name in names if _is_log((here / name).relative_to(path)) and (here / name).is_file()
            ]
    files = [str(p) for p in sorted(found, key=lambda p: [_natural(part) for part in p.parts])]
    if len({_base(file) for file in files} - {None}) > 1:
        files.sort(key=lambda file: int(_attempt(file) or 0))  # the first attempt of every host before any second one
    return files


def _is_log(path: Path) -> bool:
    if path.name.endswith(_NAMES) or flight_recorder.is_dump(path.name):
        return True
    named = len(path.parts) == 1 or _NAMED_LIKE_LOGS.search(path.as_posix()) is not None
    return named and path.name.endswith(_TEXTS)


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


def _base(path: str) -> str | None:
    """The folder that a launcher made for its processes."""
    posix = Path(path).as_posix()
    match = _RANK_FOLDER.search(posix)
    return posix[: match.start()] if match is not None else None


def _process(path: str) -> str:
    """
    Before a line of one of several launchers' processes: its folder as a host, as journald writes it.

    The number of its folder counts the processes of one host; which rank it is, only its own lines can say.
    """
    base, match = _base(path), _RANK_FOLDER.search(Path(path).as_posix())
    if base is None or match is None:
        return ""
    return f"Jan  1 00:00:00 {re.sub(r'[^A-Za-z0-9.-]', '_', base)[-120:]}.{match['rank']} process: "


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
