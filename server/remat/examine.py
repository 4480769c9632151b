"""Looks at one file as it is on disk: decodes it, checks it or makes its fixes, and says what stood in the way."""

from __future__ import annotations

import ast
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from remat.links import REPORT
from remat.lint.check import Analysis, analyse
from remat.lint.code.parsed import LARGEST
from remat.lint.rule import Context
from remat.pyproject import reason
from remat.render.report import Lines
from remat.repair import Repaired, repair
from remat.source_text import decode, encode, replace_file
from remat.surroundings import Surroundings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from remat.finding import Finding
    from remat.settings import Settings
    from remat.versions import Versions

_REST = "the rest of the file was"
_FEW = 200  # files to parse; with fewer, starting processes costs more than it saves


@dataclass(frozen=True, slots=True)
class Job:
    """One file's bytes and what is known about it. `unsafe`: None to check only, else whether to make unsafe fixes."""

    path: str
    data: bytes
    settings: Settings
    versions: Versions
    unsafe: bool | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one file gave. `text` is what the findings stand in: after the fixes, where any were made."""

    path: str
    text: str = ""
    findings: tuple[Finding, ...] = ()
    made: int = 0
    before: str = ""
    troubles: tuple[str, ...] = ()  # why it could not be checked or fixed as it should
    whole: bool = True  # all of it was checked


def examine(job: Job, surroundings: Surroundings) -> Outcome:
    """Look at one file. Never raises: a fault of ours in one file must not cost the results of the others."""
    try:
        text = decode(job.data).text
    except ValueError as error:
        return Outcome(job.path, troubles=(str(error),), whole=False)
    try:
        return _examined(job, text, Context(job.versions, job.settings, surroundings.of(job.path, text)))
    except Exception as error:  # noqa: BLE001
        what = f"internal error: {type(error).__name__}: {error}; {REPORT}"
        return Outcome(job.path, troubles=(what,), whole=False)


def _examined(job: Job, text: str, context: Context) -> Outcome:
    last: Analysis | None = None

    def look(now: str) -> tuple[Finding, ...]:
        nonlocal last
        last = analyse(now, context)
        return last.findings if last else ()

    done = Repaired(text, 0, look(text)) if job.unsafe is None else repair(text, look, unsafe=job.unsafe)
    kept = done.text if done.left or done.made else ""  # most files give nothing, and their texts need not travel
    before = text if done.made else ""
    unread = tuple(_unread(last))
    return Outcome(job.path, kept, done.left, done.made, before, (*done.refused, *unread), whole=not unread)


def _unread(analysis: Analysis | None) -> Iterator[str]:
    """Say which statements were not checked, and why."""
    unread = analysis.unread if analysis else ()
    if analysis is None or not unread:
        return
    text = analysis.text
    for one in unread:
        if one.too_large:
            at = f"line {_line(text, one.start)}"
            yield f"{at}: the statement has more than {LARGEST:,} characters and was not checked, {_REST}"
    broken = [one for one in unread if not one.too_large]
    if not broken:
        return
    what = "this statement was" if len(broken) == 1 else f"this and {len(broken) - 1} more statements were"
    if line := _error_line(text):
        yield f"line {line} is not valid Python; {what} not checked, {_REST}"
    else:
        yield f"line {_line(text, broken[0].start)} is nested too deeply; {what} not checked, {_REST}"


def _line(text: str, offset: int) -> int:
    return Lines.of(text).position(offset)[0]


def _error_line(text: str) -> int | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, "<text>", "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
    except SyntaxError as error:
        return error.lineno
    except (ValueError, RecursionError, MemoryError, OverflowError):
        return None
    return None


def run(jobs: Sequence[Job], progress: Callable[[int], None]) -> list[Outcome]:
    """Look at each file, in several processes where there are many. The outcomes are in the order of the jobs.

    `progress` is told how many files were just done.
    """
    if len(jobs) > _FEW:
        from remat.pool import spread  # noqa: PLC0415  (multiprocessing takes 0.05 s to import)

        return spread(_examine_some, jobs, _lost, progress)
    surroundings = Surroundings()
    outcomes = []
    for job in jobs:
        outcomes.append(examine(job, surroundings))
        progress(1)
    return outcomes


def fixed_bytes(outcome: Outcome, data: bytes) -> bytes:
    """Encode the repaired text as `data`, from which it was read. Raises ValueError where it does not fit."""
    return encode(outcome.text, decode(data))


def write(outcome: Outcome, data: bytes) -> str | None:
    """Put the repaired text on disk where `data` was read. None where that worked, else why it did not."""
    try:
        replace_file(Path(outcome.path), fixed_bytes(outcome, data), data)
    except ValueError as error:
        return f"not fixed: {error}"
    except OSError as error:
        return f"not fixed: {reason(error)}"
    return None


def _examine_some(jobs: Sequence[Job]) -> list[Outcome]:
    surroundings = Surroundings()
    return [examine(job, surroundings) for job in jobs]


def _lost(job: Job) -> Outcome:
    why = f"the process that read it died, out of memory or by a crash; {REPORT}"
    return Outcome(job.path, troubles=(why,), whole=False)
