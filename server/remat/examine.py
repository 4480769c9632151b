"""Looks at one file as it is on disk: decodes it, checks it or makes its fixes, and says what stood in the way."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from remat.lint.check import check
from remat.lint.rule import Context
from remat.pyproject import reason
from remat.repair import Repaired, repair
from remat.source_text import decode, encode, replace_file
from remat.surroundings import Surroundings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from remat.finding import Finding
    from remat.settings import Settings
    from remat.versions import Versions

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


def examine(job: Job, surroundings: Surroundings) -> Outcome:
    """Look at one file. Never raises: a fault of ours in one file must not cost the results of the others."""
    try:
        text = decode(job.data).text
        project = surroundings.of(job.path, text)
        look = partial(check, context=Context(job.versions, job.settings, project))
        checked_only = job.unsafe is None
        done = Repaired(text, 0, tuple(look(text))) if checked_only else repair(text, look, unsafe=bool(job.unsafe))
    except ValueError as error:
        return Outcome(job.path, troubles=(str(error),))
    except Exception as error:  # noqa: BLE001
        return Outcome(job.path, troubles=(f"internal error: {type(error).__name__}: {error}; please report this",))
    kept = done.text if done.left or done.made else ""  # most files give nothing, and their texts need not travel
    return Outcome(job.path, kept, done.left, done.made, text if done.made else "", done.refused)


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
    return Outcome(
        job.path, troubles=("the process that read it died, out of memory or by a crash; please report this",)
    )
