"""What `remat diagnose` does once the command line is understood."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from remat.diagnose.diagnose import diagnose
from remat.logs import STDIN, Joined, files_of, opened
from remat.output import warn
from remat.render import diagnosis

if TYPE_CHECKING:
    from collections.abc import Sequence

    from remat.diagnose.report import Report

NOTHING_FAILED, FAILED, ERROR = 0, 1, 2
_WRITERS = {"text": diagnosis.as_text, "markdown": diagnosis.as_markdown, "json": diagnosis.as_json}


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
    sys.stdout.write(_WRITERS[output_format](reports))
    sys.stdout.flush()
    if unread:
        return ERROR
    return FAILED if any(report.failed for _, report, _ in reports) else NOTHING_FAILED


def _groups(paths: Sequence[str], *, one_run: bool) -> list[tuple[str, list[str]]]:
    found = [(path, files_of(path) if path != STDIN and Path(path).is_dir() else [path]) for path in paths]
    return [(" ".join(paths), [file for _, files in found for file in files])] if one_run else found


def _diagnosed(name: str, files: Sequence[str]) -> diagnosis.Diagnosed:
    if len(files) == 1 and files[0] == name:
        with opened(name) as lines:
            report: Report = diagnose(lines)
        return name, report, ()
    if not files:
        raise FileNotFoundError(2, "no log files (.log, .txt, .out, .err, error.json) in it", name)
    joined = Joined(files)
    report = diagnose(joined)
    return name, report, tuple(joined.starts)
