"""Opening what `remat diagnose` is given: files, standard input, and folders that torchrun --log-dir wrote."""

from __future__ import annotations

import codecs
import io
import json
import re
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

STDIN = "-"
_RANK_FOLDER = re.compile(
    r"attempt_(?P<attempt>\d+)/(?P<rank>\d+)/(?:stdout|stderr)\.log$|attempt_\d+/\d+/error\.json$"
)
_LOCAL_RANK = re.compile(r"/(\d+)/[^/]+$")
_NAMES = (".log", ".txt", ".out", ".err", ".jsonl", "error.json")


@dataclass(slots=True)
class Joined:
    """The lines of several files as one run. `starts`: each file, and the number of its first line in the whole."""

    paths: Sequence[str]
    starts: list[tuple[str, int]] = field(default_factory=list)

    def __iter__(self) -> Iterator[str]:
        number = 1
        for path in self.paths:
            self.starts.append((path, number))
            prefix = _prefix(path)
            with opened(path) as lines:
                for line in _callstack(lines) if path.endswith("error.json") else lines:
                    yield prefix + line
                    number += 1


@contextmanager
def opened(path: str) -> Iterator[Iterator[str]]:
    """Lines of a file or of standard input, whatever bytes they hold. Raises OSError."""
    if path == STDIN:
        yield io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8", errors="replace", newline="\n")
        return
    with Path(path).open("rb") as file:
        head = file.read(2)
        encoding = "utf-16" if head in {codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE} else "utf-8-sig"
        file.seek(0)
        yield io.TextIOWrapper(file, encoding=encoding, errors="replace", newline="\n")


def files_of(path: str) -> list[str]:
    """The logs below a folder, those of the first attempt and of the lowest rank first."""
    found = [p for p in Path(path).rglob("*") if p.is_file() and p.name.endswith(_NAMES)]
    kept = [p for p in found if p.name != "error.json" or not (p.parent / "stderr.log").exists()]
    return [str(p) for p in sorted(kept, key=lambda p: [_natural(part) for part in p.parts])]


def _natural(part: str) -> tuple[int, str]:
    return (int(part), "") if part.isdigit() else (-1, part)


def _prefix(path: str) -> str:
    """The rank that torchrun wrote into the file's path, as it would stand before a line."""
    posix = Path(path).as_posix()
    if _RANK_FOLDER.search(posix) is None:
        return ""
    match = _LOCAL_RANK.search(posix)
    return f"[default{match[1]}]:" if match is not None else ""


def _callstack(lines: Iterator[str]) -> Iterator[str]:
    """The traceback inside an error file of torch.distributed.elastic."""
    text = "".join(lines)
    try:
        stack = json.loads(text)["message"]["extraInfo"]["py_callstack"]
    except (ValueError, KeyError, TypeError, RecursionError):
        stack = text
    yield from str(stack).splitlines(keepends=True)
