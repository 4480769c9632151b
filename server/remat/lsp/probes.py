"""Runs probes for an editor, one after the other, in a worker that stays warm while nothing it read has changed."""

from __future__ import annotations

import asyncio
import os
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from remat.lsp.advices import answer_of, plan_of
from remat.lsp.one_thread import OneThread
from remat.probe import gpus, run
from remat.probe.messages import Environment, Failure, Log, Progress, Request, Unmeasured, VariantResult
from remat.protocol import ProbeAnswer, ProbeCard, ProbeProgress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from remat.probe.messages import Event
    from remat.protocol import AdviseAnswer, AdviseParams, ProbeParams

T = TypeVar("T")

_PATIENCE = 600.0  # seconds that an idle worker keeps its memory


class Probes:
    """`progress` and `log` are called in the thread of the editor's messages."""

    def __init__(self, progress: Callable[[ProbeProgress], None], log: Callable[[str], None]) -> None:
        self._progress, self._log = progress, log
        self._thread = OneThread("remat-probes")
        self._lock = threading.Lock()
        self._worker: run.Worker | None = None
        self._kept_for: tuple[str, str, str] | None = None
        self._asking: threading.Event | None = None
        self._outdated = False
        self._idle: threading.Timer | None = None

    async def answer(self, params: ProbeParams, python: str | None) -> ProbeAnswer:
        """
        Probe every variant. Cancelling ends the worker at once.

        `python`: the interpreter that the user chose; None: the one that is found from the target's folder.
        """
        return await self._in_turn(partial(self._answered, params, python))

    async def advise(self, params: AdviseParams, python: str | None) -> AdviseAnswer:
        """Advise on a variant, asking for others of it. Cancelling ends the worker at once."""
        return await self._in_turn(partial(self._advised, params, python))

    async def _in_turn(self, work: Callable[[threading.Event, Callable[[Callable[[], None]], None]], T]) -> T:
        """`work` is told what is set when nobody wants its answer any more, and how to say something meanwhile."""
        loop = asyncio.get_running_loop()
        unwanted = threading.Event()
        try:
            return await self._thread.do(partial(work, unwanted, partial(self._from_thread, loop)))
        except asyncio.CancelledError:
            unwanted.set()
            if self._asking is unwanted:  # not the worker of another request
                self._cancel()
            raise

    def changed(self) -> None:
        """Files or packages may differ: the next probe reads them anew."""
        self._outdated = True

    def end(self) -> None:
        """End the worker, whatever it does."""
        self._cancel()
        if self._idle is not None:
            self._idle.cancel()
        self._thread.end()

    def _from_thread(self, loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(call)

    def _cancel(self) -> None:
        with self._lock:
            if self._worker is not None:
                run.cancel(self._worker)

    def _answered(
        self,
        params: ProbeParams,
        python: str | None,
        unwanted: threading.Event,
        tell: Callable[[Callable[[], None]], None],
    ) -> ProbeAnswer:
        found: list[VariantResult] = []
        failed: list[Failure] = []
        environment: Environment | None = None
        unmeasured: str | None = None
        seconds = 0.0
        request = Request(params.target, params.variants, params.folder, params.device, params.gpu, params.mode)
        self._asking = unwanted
        for event in () if unwanted.is_set() else self._events(request, python, unwanted):
            if isinstance(event, Progress):
                doing = ProbeProgress(params.token, event.stage, event.variant, event.done, event.of)
                tell(partial(self._progress, doing))
            elif isinstance(event, VariantResult):
                found.append(event)
            elif isinstance(event, Failure):
                failed.append(event)
                tell(partial(self._log, f"probing {params.target}: {event.message}\n{event.details}".rstrip()))
            elif isinstance(event, Environment):
                environment = event
            elif isinstance(event, Unmeasured):
                unmeasured = unmeasured or event.why
            elif isinstance(event, Log):
                tell(partial(self._log, event.text))
            else:
                seconds = event.seconds
        card = gpus.card(params.gpu) if params.gpu is not None else None
        needs = tuple(_with_process(one, card or gpus.UNKNOWN) for one in found)
        gpu = card.name if card is not None else None
        plans = tuple(plan_of(one) for one in found)
        return ProbeAnswer(
            params.target, environment, seconds, needs, tuple(failed), _cards(found), gpu, plans, unmeasured
        )

    def _advised(
        self,
        params: AdviseParams,
        python: str | None,
        unwanted: threading.Event,
        tell: Callable[[Callable[[], None]], None],
    ) -> AdviseAnswer:
        from remat.advising import Advice, advice_of  # noqa: PLC0415 - needed by few

        card = gpus.card(params.gpu) if params.gpu is not None else None
        gpu = card.name if card is not None else None
        request = Request(params.target, (params.variant,), params.folder, gpu=gpu)
        self._asking = unwanted

        def hear(doing: Progress) -> None:
            said = ProbeProgress(params.token, doing.stage, doing.variant, doing.done, doing.of)
            tell(partial(self._progress, said))

        worker = self._started(request, python, unwanted)
        if isinstance(worker, Failure):
            return answer_of(Advice(None, None, (), (), None, None, (worker,), 0), card)
        try:
            return answer_of(advice_of(worker, request, card, hear), card)
        finally:
            self._left(worker)

    def _started(self, request: Request, python: str | None, unwanted: threading.Event) -> run.Worker | Failure:
        try:
            interpreter = _interpreter(request, python)
            worker = self._warm(interpreter, request)
        except ValueError as error:
            return Failure(None, "import", str(error))
        except OSError as error:
            what = error.filename or "the interpreter"
            return Failure(None, "import", f"{what} cannot be started: {error.strerror}")
        if unwanted.is_set():  # cancelled while it was being started
            run.cancel(worker)
        return worker

    def _events(self, request: Request, python: str | None, unwanted: threading.Event) -> Iterable[Event]:
        worker = self._started(request, python, unwanted)
        return [worker] if isinstance(worker, Failure) else self._asked(worker, request)

    def _asked(self, worker: run.Worker, request: Request) -> Iterator[Event]:
        try:
            yield from run.ask(worker, request)
        finally:
            self._left(worker)

    def _left(self, worker: run.Worker) -> None:
        if run.alive(worker):
            self._rest()
        else:
            self._discard()

    def _warm(self, python: str, request: Request) -> run.Worker:
        """Give the worker of the last probe where it would answer as a new one does. Raises OSError."""
        wanted = (python, request.folder, request.mode)
        if self._idle is not None:
            self._idle.cancel()
        if self._worker is None or self._outdated or self._kept_for != wanted or not run.alive(self._worker):
            self._discard()
            self._outdated = False
            worker = run.start(python, Path(request.folder), mode=request.mode)
            with self._lock:
                self._worker, self._kept_for = worker, wanted
        assert self._worker is not None  # noqa: S101 - only this thread takes it away
        return self._worker

    def _rest(self) -> None:
        self._idle = threading.Timer(_PATIENCE, self._cancel)
        self._idle.daemon = True
        self._idle.start()

    def _discard(self) -> None:
        with self._lock:
            worker, self._worker = self._worker, None
        if worker is not None:
            run.end(worker)


def _interpreter(request: Request, python: str | None) -> str:
    """The Python to run the user's code with. Raises ValueError, saying what was looked at."""
    from remat.interpreter import find_interpreter  # noqa: PLC0415 - reads the disk; not for the start

    return find_interpreter(Path(request.folder), python, os.environ)


def _with_process(result: VariantResult, card: gpus.Card) -> VariantResult:
    """The same with what the driver will show, where a driver shows anything."""
    if result.process_bytes is not None or result.reserved_bytes is None:
        return result
    return replace(result, process_bytes=gpus.process_bytes(result, card))


def _cards(results: list[VariantResult]) -> tuple[ProbeCard, ...]:
    return tuple(
        ProbeCard(card.name, card.usable, tuple(gpus.verdict(result, card).value for result in results))
        for card in gpus.CARDS
    )
