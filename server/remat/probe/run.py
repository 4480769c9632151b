"""Runs the probe's worker under the user's interpreter, hears its events, and ends it in time."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING

from remat.probe.frames import user_line
from remat.probe.lines import read_event, request_line
from remat.probe.messages import Done, Failure, Limits, Location, Log, Progress
from remat.probe.processes import end as end_processes
from remat.probe.processes import memory_of, physical_memory

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from remat.probe.messages import Event, Request

WORKER = Path(__file__).with_name("worker.py")
_GRACE = 1.5  # seconds between the worker's own word about its time and its end
_TICK = 0.2
_LAST_WORDS = 400  # lines of standard error that are kept
_OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "WANDB_MODE": "disabled",
    "WANDB_SILENT": "true",
    "COMET_MODE": "disabled",
    "MLFLOW_TRACKING_URI": "",
    "TOKENIZERS_PARALLELISM": "false",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONSAFEPATH": "1",
    "MPLBACKEND": "Agg",
}


@dataclass(slots=True)
class Worker:
    """A worker process and what is known of it. `stamps`: the files it has loaded are trusted to be as they were."""

    process: subprocess.Popen[str]
    python: str
    said: queue.Queue[str | None] = field(default_factory=queue.Queue)
    noise: deque[str] = field(default_factory=lambda: deque(maxlen=_LAST_WORDS))
    cancelled: threading.Event = field(default_factory=threading.Event)
    stage: str = "import"
    variant: str | None = None
    threads: tuple[threading.Thread, ...] = ()


def start(python: str, folder: Path, environ: Mapping[str, str] | None = None, mode: str = "estimate") -> Worker:
    """Start a worker in `folder`. OSError where `python` can't be started."""
    process = subprocess.Popen(  # noqa: S603  (the interpreter that the user chose)
        [python, "-u", "-X", "utf8", str(WORKER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        cwd=folder,
        env=environment(os.environ if environ is None else environ, mode),
        start_new_session=os.name == "posix",
        creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
    )
    worker = Worker(process, python)
    listeners = ((process.stdout, _hear), (process.stderr, _overhear))
    worker.threads = tuple(threading.Thread(target=hear, args=(worker, pipe), daemon=True) for pipe, hear in listeners)
    for thread in worker.threads:
        thread.start()
    return worker


def ask(worker: Worker, request: Request) -> Iterator[Event]:
    """Yield what the worker answers, ending with Done. One that ends, or uses too much, is a Failure; never an error.

    The worker lives on for a further request where `alive` says so.
    """
    began = time.monotonic()
    limits = request.limits
    if limits.memory_bytes is None:
        request = _with_memory(request, physical_memory() // 2)
        limits = request.limits
    try:
        assert worker.process.stdin is not None  # noqa: S101  (opened as a pipe above)
        worker.process.stdin.write(request_line(request))
        worker.process.stdin.flush()
    except (OSError, ValueError):
        worker.said.put(None)
    for event in _until_done(worker, began, limits):
        if isinstance(event, Progress):
            worker.stage, worker.variant = event.stage, event.variant
        yield event
    yield Done(round(time.monotonic() - began, 3))


def cancel(worker: Worker) -> None:
    """End the worker now; whoever iterates over its answers is told. May be called from any thread."""
    worker.cancelled.set()
    _kill(worker)


def end(worker: Worker) -> None:
    """End the worker and everything that it started."""
    _kill(worker)
    with contextlib.suppress(subprocess.TimeoutExpired):
        worker.process.wait(5)
    for pipe in (worker.process.stdin, worker.process.stdout, worker.process.stderr):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


def alive(worker: Worker) -> bool:
    return worker.process.poll() is None and not worker.cancelled.is_set()


def run(request: Request, python: str) -> Iterator[Event]:
    """Start a worker for one request and end it. A caller that stops listening ends it too."""
    with started(request, python) as worker:
        yield from answers(worker, request)


@contextlib.contextmanager
def started(request: Request, python: str) -> Iterator[Worker | Failure]:
    """A worker for requests like this one, ended at the end; or why there is none."""
    try:
        worker = start(python, Path(request.folder), mode=request.mode)
    except OSError as error:
        yield Failure(None, "import", f"{python} can't be started: {error.strerror or error}")
        return
    try:
        yield worker
    finally:
        end(worker)


def answers(worker: Worker | Failure, request: Request) -> Iterator[Event]:
    """What `ask` yields; of a worker that could not be started, why."""
    if isinstance(worker, Worker):
        yield from ask(worker, request)
        return
    yield worker
    yield Done(0.0)


def environment(environ: Mapping[str, str], mode: str = "estimate") -> dict[str, str]:
    """The user's environment, offline, and without what brings Remat's own packages onto the path."""
    ours = {str(Path(entry).resolve()) for entry in sys.path if entry and _is_ours(Path(entry))}
    kept = dict(environ)
    paths = [p for p in kept.pop("PYTHONPATH", "").split(os.pathsep) if p and str(Path(p).resolve()) not in ours]
    if paths:
        kept["PYTHONPATH"] = os.pathsep.join(paths)
    for name in ("PYTHONHOME", "PYTHONSTARTUP", "PYTHONINSPECT"):
        kept.pop(name, None)
    if mode == "estimate":
        kept["CUDA_VISIBLE_DEVICES"] = ""
    return kept | _OFFLINE


def _is_ours(folder: Path) -> bool:
    return (folder / "remat" / "probe" / "worker.py").is_file() or folder.name == "bundled"


def _with_memory(request: Request, memory: int) -> Request:
    return replace(request, limits=Limits(request.limits.seconds, memory))


def _until_done(worker: Worker, began: float, limits: Limits) -> Iterator[Event]:
    """Yield events until the worker is done or over, and say why it is over."""
    last: Event | None = None
    while True:
        try:
            line = worker.said.get(timeout=_TICK)
        except queue.Empty:
            line = ""
        if line is None:
            ended = _ended(worker)
            if not (isinstance(last, Failure) and last.variant is None):  # else it has told its end itself
                yield ended
            return
        if line:
            event = _event(line)
            if isinstance(event, Done):
                return
            last = event
            yield event
            continue
        over = _over(worker, time.monotonic() - began, limits)
        if over is not None:
            _kill(worker)
            yield over
            return


def _event(line: str) -> Event:
    try:
        return read_event(line)
    except ValueError as error:
        return Log(f"the worker wrote a line that is no event: {error}")


def _over(worker: Worker, seconds: float, limits: Limits) -> Failure | None:
    if seconds > limits.seconds + _GRACE:
        place = _user_line(worker)
        where = f"; the code was at {place.path}:{place.line}" if place else ""
        text = f"stopped after {limits.seconds:g} s, the limit, during {_doing(worker)}{where}"
        return Failure(worker.variant, worker.stage, text, place, details=_words(worker))
    if limits.memory_bytes is not None and os.name == "posix":
        used = memory_of(worker.process.pid)
        if used > limits.memory_bytes:
            text = (
                f"stopped because the process used {used / 2**30:.1f} GiB of memory, more than its limit of "
                f"{limits.memory_bytes / 2**30:.1f} GiB, during {_doing(worker)}"
            )
            return Failure(worker.variant, worker.stage, text, details=_words(worker))
    return None


def _ended(worker: Worker) -> Failure:
    """Say how a worker ended that did not say so itself."""
    _kill(worker)  # what it started may live on
    with contextlib.suppress(subprocess.TimeoutExpired):
        worker.process.wait(5)
    for thread in worker.threads:
        thread.join(1)
    if worker.cancelled.is_set():
        return Failure(worker.variant, worker.stage, "cancelled")
    place = _user_line(worker)
    status = worker.process.returncode
    how = f"by {_signal(-status)}" if status is not None and status < 0 else f"with status {status}"
    where = f"; the code was at {place.path}:{place.line}" if place else ""
    text = f"the process that ran the code ended {how} during {_doing(worker)}{where}"
    return Failure(worker.variant, worker.stage, text, place, details=_words(worker))


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _doing(worker: Worker) -> str:
    return f"{worker.stage} of {worker.variant}" if worker.variant else worker.stage


def _words(worker: Worker) -> str:
    return "".join(worker.noise)[-20_000:]


def _user_line(worker: Worker) -> Location | None:
    return user_line("".join(worker.noise))


def _hear(worker: Worker, pipe: IO[str]) -> None:
    with contextlib.suppress(ValueError, OSError):
        for line in pipe:
            worker.said.put(line)
    worker.said.put(None)


def _overhear(worker: Worker, pipe: IO[str]) -> None:
    """Keep the last lines; a line without an end is cut, so that what is printed can't fill this process's memory."""
    with contextlib.suppress(ValueError, OSError):
        while line := pipe.readline(4096):
            worker.noise.append(line)


def _kill(worker: Worker) -> None:
    """End the process and all that it started."""
    end_processes(worker.process.pid)
