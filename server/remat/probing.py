"""What `remat probe` does once the command line is understood."""

from __future__ import annotations

import os
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from remat.advising import advice, advice_of
from remat.interpreter import find_interpreter
from remat.output import emit, warn
from remat.probe import run
from remat.probe.gpus import Verdict, verdict
from remat.probe.messages import Environment, Failure, Log, Progress, Unmeasured, VariantResult
from remat.render import advice as render_advice
from remat.render import probe as render
from remat.render.timeline_page import page

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from remat.advising import Advice
    from remat.probe.gpus import Card
    from remat.probe.messages import Request
    from remat.render.probe import Probed

DONE, DOES_NOT_FIT, ERROR = 0, 1, 2
_PATIENCE = 1.0  # seconds before it is told what is being done


@dataclass(frozen=True, slots=True)
class Asked:
    """What a user asked for, beside the request itself.

    `optional`: variants that Remat added; one that does not apply to the model is left out. `on`: the card or size of
    `--budget`. `card`: the card whose context counts. `timeline`: the file that the drawing goes to.
    """

    request: Request
    output_format: str = "text"
    python: str | None = None
    optional: frozenset[str] = frozenset()
    on: Card | None = None
    card: Card | None = None
    advise: bool = False
    timeline: str | None = None


def probe(asked: Asked) -> int:
    """Probe every variant and print what was found; return the exit status."""
    folder = Path(asked.request.folder)
    try:
        python = find_interpreter(_start(asked.request, folder), asked.python, os.environ)
    except ValueError as error:
        warn(str(error))
        return ERROR
    with run.started(asked.request, python) as worker:
        probed = _probed(asked, worker)
        advised = _advised(asked, python, worker, probed) if asked.advise and probed.variants else None
    if asked.output_format == "json":
        sys.stdout.write(render.as_json(probed, render_advice.as_json(advised, asked.on) if advised else None))
    else:
        emit(render.as_text(probed), sys.stdout if probed.variants else sys.stderr)
        emit(render_advice.as_text(advised, asked.on) if advised else ())
    sys.stdout.flush()
    return _status(probed) if _drawn(probed, asked.timeline) else ERROR


def _drawn(probed: Probed, file: str | None) -> bool:
    """Write the page; return whether it is there if it was asked for."""
    if file is None or not probed.variants:
        return True
    try:
        Path(file).write_text(page(probed), encoding="utf-8")
    except OSError as error:
        warn(f"{file}: the timeline cannot be written: {error.strerror or error}")
        return False
    return True


def _start(request: Request, folder: Path) -> Path:
    """Return the file or folder whose environment is meant."""
    if request.target.startswith("hf:"):
        return folder
    path = folder / request.target.partition(".py")[0]
    file = path.parent / f"{path.name}.py"
    return file if file.is_file() else folder


def _probed(asked: Asked, worker: run.Worker | Failure) -> Probed:
    results: list[VariantResult] = []
    failures: list[Failure] = []
    environment: Environment | None = None
    unmeasured: dict[tuple[str, str], list[str]] = {}
    seconds = 0.0
    with _telling() as tell:
        for event in run.answers(worker, asked.request):
            if isinstance(event, Progress):
                tell(event)
            elif isinstance(event, VariantResult):
                results.append(event)
            elif isinstance(event, Failure):
                failures.append(event)
            elif isinstance(event, Environment):
                environment = event
            elif isinstance(event, Unmeasured):
                unmeasured.setdefault((event.why, event.how), []).append(event.variant)
            elif isinstance(event, Log):
                warn(event.text)
            else:
                seconds = event.seconds
    for (why, how), names in unmeasured.items():
        warn(f"{', '.join(names)}: not measured: {why}; {how}")
    if results:
        failures = [f for f in failures if f.variant not in asked.optional or f.location or f.missing]
    request = asked.request
    found = render.Probed(request.target, request.device, environment, seconds, tuple(results), tuple(failures))
    return replace(found, on=asked.on, card=asked.card)


def _advised(asked: Asked, python: str, worker: run.Worker | Failure, probed: Probed) -> Advice:
    """From the worker that has answered, and what it answered, where it estimates and lives."""
    request = asked.request
    with _telling() as tell:
        if isinstance(worker, Failure) or request.mode != "estimate" or not run.alive(worker):
            return advice(request, python, asked.on, tell)
        results = {result.name: result for result in probed.variants}
        known = {variant: results[variant.name] for variant in request.variants if variant.name in results}
        return advice_of(worker, request, asked.on, tell, known)


def _status(probed: Probed) -> int:
    """2 where something failed; with a budget, 1 where no variant surely fits."""
    if probed.failures or not probed.variants:
        return ERROR
    if probed.on is None:
        return DONE
    fits = any(verdict(result, probed.on) is Verdict.FITS for result in probed.variants)
    return DONE if fits else DOES_NOT_FIT


@contextmanager
def _telling() -> Iterator[Callable[[Progress], None]]:
    """Yield a function that tells on a terminal what is being done; the line vanishes at the end."""
    began = time.monotonic()
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield lambda _: None
        return

    def tell(progress: Progress) -> None:
        if time.monotonic() - began > _PATIENCE:
            of = f" of {progress.variant}" if progress.variant else ""
            sys.stderr.write(f"\r\x1b[2K{progress.stage}{of} ({progress.done + 1} of {progress.of})")
            sys.stderr.flush()

    try:
        yield tell
    finally:
        sys.stderr.write("\r\x1b[2K")
        sys.stderr.flush()
