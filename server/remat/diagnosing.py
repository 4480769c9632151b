"""What `remat diagnose` does once the command line is understood."""

from __future__ import annotations

import shutil
import sys
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

from remat.diagnose.diagnose import diagnose
from remat.incident.code_paths import CodePaths, named_places
from remat.incident.explained import explained
from remat.incident.rank_guards import explained_by_code
from remat.incident.readable import of_text
from remat.logs import STDIN, Joined, files_of, opened
from remat.output import emit, warn
from remat.render import diagnosis
from remat.surroundings import read_small

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from remat.diagnose.report import Report
    from remat.finding import Finding
    from remat.incident.code_paths import Named

_MOST_PLACES = 5000  # the last ones that a log names
_LARGEST_CODE = 4 * 1024 * 1024  # bytes
NOTHING_FAILED, FAILED, ERROR = 0, 1, 2


def run(paths: Sequence[str], output_format: str, *, one_run: bool) -> int:
    """Print one report for each file, folder or `one_run`; return the exit status."""
    reports: list[diagnosis.Diagnosed] = []
    unread = False
    for name, group in _groups(paths, one_run=one_run):
        try:
            reports.append(_diagnosed(name, group))
        except OSError as error:
            warn(f"{error.filename or name}: {error.strerror or error}")
            unread = True
    _write(reports, output_format)
    if unread:
        return ERROR
    return FAILED if any(one.report.failed for one in reports) else NOTHING_FAILED


def _write(reports: Sequence[diagnosis.Diagnosed], output_format: str) -> None:
    if output_format == "text":
        emit(diagnosis.as_text(reports, shutil.get_terminal_size().columns if sys.stdout.isatty() else None))
    else:
        sys.stdout.write((diagnosis.as_json if output_format == "json" else diagnosis.as_markdown)(reports))
    sys.stdout.flush()


def _groups(paths: Sequence[str], *, one_run: bool) -> list[tuple[str, list[str]]]:
    found = [(path, files_of(path, warn) if path != STDIN and Path(path).is_dir() else [path]) for path in paths]
    return [(" ".join(paths), [file for _, files in found for file in files])] if one_run else found


def _diagnosed(name: str, files: Sequence[str]) -> diagnosis.Diagnosed:
    if len(files) == 1 and files[0] == name:
        with opened(name) as lines:
            return _explained(name, lines)
    if not files:
        raise FileNotFoundError(2, "no log files (.log, .txt, .out, .err, error.json) in it", name)
    joined = Joined(files)
    return _explained(name, joined, joined.starts)


def _explained(name: str, lines: Iterable[str], starts: Sequence[tuple[str, int]] = ()) -> diagnosis.Diagnosed:
    """Diagnose, and look for what the linter says in the code below this folder that the log names."""
    named: deque[tuple[int, Named]] = deque(maxlen=_MOST_PLACES)
    report: Report = diagnose(_watched(of_text(name, lines), named))
    code = CodePaths([str(Path.cwd())], str(Path.cwd()))
    report = explained_by_code(report, named, code, lambda path: read_small(path, _LARGEST_CODE))
    return diagnosis.Diagnosed(name, report, tuple(starts), tuple(explained(report, named, code, _look)))


def _watched(lines: Iterable[str], named: deque[tuple[int, Named]]) -> Iterator[str]:
    """The same lines; `named` gathers the places of code in them."""
    for number, line in enumerate(lines, 1):
        if "line " in line or ".py:" in line:
            named.extend((number, place) for place in named_places(line))
        yield line


def _look(path: str) -> tuple[str, Sequence[Finding]] | None:
    from remat.examine import run as examine  # noqa: PLC0415 - most logs need no linter
    from remat.scan import Choices, plan  # noqa: PLC0415

    outcomes = examine(plan([path], Choices()).jobs, lambda _: None)
    return (outcomes[0].text, outcomes[0].findings) if outcomes else None
