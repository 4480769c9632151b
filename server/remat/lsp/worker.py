"""One thread beside the editor's messages: runs the newest job of each key after a pause, tells older ones to stop."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

IsCurrent = Callable[[], bool]
Job = Callable[[IsCurrent], None]


_STACK = 256 * 1024 * 1024  # bytes of address space: libcst's parser recurses, and 5,000 open brackets overflow 8 MiB


@dataclass(frozen=True, slots=True)
class _Order:
    due: float
    job: Job


def _start(thread: threading.Thread) -> None:
    before = threading.stack_size()
    with contextlib.suppress(ValueError, RuntimeError):  # a system that allows no such size: then its own
        threading.stack_size(_STACK)
    try:
        thread.start()
    finally:
        threading.stack_size(before)


class Worker:
    """`failed` is called, in the thread, with what a job raised; the thread goes on."""

    def __init__(self, failed: Callable[[Exception], None]) -> None:
        self._failed = failed
        self._changed = threading.Condition()
        self._orders: dict[str, _Order] = {}
        self._newest: dict[str, _Order] = {}  # also the one that runs
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="analysis", daemon=True)

    def submit(self, key: str, job: Job, pause: float = 0.0) -> None:
        """Run `job` once `pause` seconds have passed without another one for `key`, which would take its place."""
        with self._changed:
            if self._thread.ident is None and not self._stopped:
                _start(self._thread)
            self._orders[key] = self._newest[key] = _Order(time.monotonic() + pause, job)
            self._changed.notify()

    def drop(self, key: str) -> None:
        """Forget the job of `key`; where it runs, it is told to stop."""
        with self._changed:
            self._orders.pop(key, None)
            self._newest.pop(key, None)

    def stop(self, patience: float) -> bool:
        """End the thread; False where a job does not end within `patience` seconds."""
        with self._changed:
            self._stopped = True
            self._newest.clear()
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join(patience)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (taken := self._take()) is not None:
            key, order = taken
            try:
                order.job(lambda: self._newest.get(key) is order)  # noqa: B023 - asked only while this job runs
            except Exception as error:  # noqa: BLE001 - one bad text must not end the analysis of all others
                self._failed(error)

    def _take(self) -> tuple[str, _Order] | None:
        """Wait for the first job that is due; None when the thread is to end."""
        with self._changed:
            while not self._stopped:
                key = min(self._orders, key=lambda k: self._orders[k].due, default=None)
                wait = None if key is None else self._orders[key].due - time.monotonic()
                if key is not None and wait is not None and wait <= 0:
                    return key, self._orders.pop(key)
                self._changed.wait(wait)
        return None
