"""Runs one function over many jobs in several processes; a process that dies costs the result of its own job only."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Job = TypeVar("Job")
Result = TypeVar("Result")
_CHUNK = 16  # jobs sent at a time: enough to hide the sending, few enough to show progress


def processors() -> int:
    """Count the processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def spread(
    work: Callable[[Sequence[Job]], Sequence[Result]],
    jobs: Sequence[Job],
    lost: Callable[[Job], Result],
    progress: Callable[[int], None],
) -> list[Result]:
    """Return one result per job, in their order, where `work` makes those of a few; `lost` for one whose process died.

    `progress` is told how many jobs were just done. On an interrupt no process stays behind.
    """
    done: dict[int, Result] = {}
    chunks = [range(i, min(i + _CHUNK, len(jobs))) for i in range(0, len(jobs), _CHUNK)]
    try:
        _gather(work, jobs, chunks, done, progress, processors())
        for i in range(len(jobs)):  # only what a dead process left behind: one by one, to learn which job it was
            if i not in done:
                _gather(work, jobs, [range(i, i + 1)], done, progress, 1)
            if i not in done:
                done[i] = lost(jobs[i])
                progress(1)
    except KeyboardInterrupt:
        for process in multiprocessing.active_children():
            process.terminate()
        raise
    return [done[i] for i in range(len(jobs))]


def _gather(
    work: Callable[[Sequence[Job]], Sequence[Result]],
    jobs: Sequence[Job],
    chunks: Sequence[range],
    done: dict[int, Result],
    progress: Callable[[int], None],
    workers: int,
) -> None:
    # Forked processes share the imported parser; elsewhere forking is unsafe (macOS) or unknown (Windows).
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    with ProcessPoolExecutor(min(workers, len(chunks)), context, initializer=_die_silently) as executor:
        futures = {executor.submit(work, [jobs[i] for i in chunk]): chunk for chunk in chunks}
        try:
            for future in as_completed(futures):
                chunk = futures[future]
                done.update(zip(chunk, future.result(), strict=True))
                progress(len(chunk))
        except BrokenProcessPool:
            return
        except KeyboardInterrupt:
            executor.shutdown(wait=False, cancel_futures=True)
            raise


def _die_silently() -> None:
    """Let an interrupt end a worker without a traceback; the parent says what is to be said."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
