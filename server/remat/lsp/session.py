"""What is known of each open document: when to analyse again, and whether a result still is about the text shown."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from remat.lsp.analyst import Analyst, Outcome, Question
from remat.lsp.worker import IsCurrent, Worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from remat.finding import Finding
    from remat.lsp.documents import Document

PAUSE = 0.03  # seconds without a keystroke before a text is analysed
PAUSE_FOR_FILES = 0.1  # files change in bunches: a checkout, a save of all
_SCHEMES = ("file:", "untitled:")  # not notebook cells: one cell alone does not tell what the others do
_SUFFIXES = (".py", ".pyi", ".pyw")


@dataclass(frozen=True, slots=True)
class Result:
    """The findings of a document's present version. `identity` differs whenever they may."""

    document: Document
    findings: tuple[Finding, ...]
    identity: str
    seconds: float


@dataclass(slots=True)
class _Known:
    result: Result | None = None  # None: the present version is not analysed yet
    outcome: Outcome | None = None  # the last one, of whichever version
    scheduled: bool = False  # an analysis is to come
    waiting: list[asyncio.Future[Result | None]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Answer:
    """`text` and `version` are what the analyst saw. `edited`: they had changed, not only what surrounds them."""

    document: Document
    version: int | None
    text: str
    surroundings: int
    outcome: Outcome | Exception
    edited: bool


class Session:
    """Belongs to the thread of the editor's messages; only `_ask` runs in the other one.

    `finished` is called with each new result, and whether the text or only its surroundings had changed.
    """

    def __init__(
        self,
        analyst: Analyst,
        find: Callable[[str], Document | None],
        finished: Callable[[Result, bool], None],
        unexpected: Callable[[Exception, str], None],
    ) -> None:
        self._analyst, self._find, self._finished, self._unexpected = analyst, find, finished, unexpected
        self._loop = asyncio.get_running_loop()
        self._known: dict[str, _Known] = {}
        self._count = 0
        self._surroundings = 0  # counts their changes
        self._worker = Worker(lambda error: self.from_thread(lambda: unexpected(error, "analysing")))

    def from_thread(self, call: Callable[[], None]) -> None:
        """Run `call` in the thread of the editor's messages; in none where the server is ending."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(call)

    def opened(self, document: Document) -> None:
        if is_ours(document):
            self._known[document.uri] = _Known()
            self._analyse(document, pause=0.0, edited=True)

    def changed(self, document: Document) -> None:
        known = self._known.get(document.uri)
        if known is not None:
            known.result = None
            _answer(known, None)
            self._analyse(document, pause=PAUSE, edited=True)

    def closed(self, uri: str) -> bool:
        """Forget a document; whether it was one of ours."""
        known = self._known.pop(uri, None)
        if known is not None:
            _answer(known, None)
            self._worker.drop(uri)
        return known is not None

    def surroundings_changed(self) -> None:
        """Settings, files or the environment may differ: read them again, and analyse all where they do."""
        self._surroundings += 1
        self._analyst.renew()
        for uri, known in self._known.items():
            document = self._find(uri)
            if document is not None and not known.scheduled:  # else files that change without end would hold it up
                self._analyse(document, pause=PAUSE_FOR_FILES, edited=False)

    async def result(self, document: Document) -> Result | None:
        """The findings of the version that is shown now; None where an edit or a close comes first."""
        known = self._known.get(document.uri)
        if known is None:
            return Result(document, (), "none", 0.0)
        if known.result is None:
            waiting: asyncio.Future[Result | None] = self._loop.create_future()
            known.waiting.append(waiting)
            return await waiting
        return known.result

    def end(self, patience: float) -> bool:
        return self._worker.stop(patience)

    def _analyse(self, document: Document, *, pause: float, edited: bool) -> None:
        known, version, text = self._known[document.uri], document.version, document.source
        known.scheduled = True

        def ask(is_current: IsCurrent) -> None:
            outcome: Outcome | Exception | None
            surroundings = self._surroundings
            try:
                question = Question(document.uri, document.path, text, known.outcome)
                outcome = self._analyst.answer(question, is_current)
            except Exception as error:  # noqa: BLE001 - who waits for the answer must get one
                outcome = error
            if outcome is not None:
                self.from_thread(partial(self._take, _Answer(document, version, text, surroundings, outcome, edited)))

        self._worker.submit(document.uri, ask, pause)

    def _take(self, answer: _Answer) -> None:
        """Keep an outcome; make it known only where it still is about the text that is shown."""
        document, outcome = answer.document, answer.outcome
        known = self._known.get(document.uri)
        if known is None or self._find(document.uri) is not document:
            return
        same = outcome is known.outcome
        if isinstance(outcome, Exception):
            self._unexpected(outcome, f"analysing {document.uri}")
        else:
            known.outcome = outcome
        if document.version != answer.version or document.source is not answer.text:
            return
        if not (same and known.result):
            self._count += 1
            findings, seconds = ((), 0.0) if isinstance(outcome, Exception) else (outcome.findings, outcome.seconds)
            known.result = Result(document, findings, str(self._count), seconds)
            self._finished(known.result, answer.edited)
        _answer(known, known.result)
        known.scheduled = False
        if answer.surroundings != self._surroundings:  # they changed after the analyst had looked
            self._analyse(document, pause=PAUSE_FOR_FILES, edited=False)


def _answer(known: _Known, result: Result | None) -> None:
    for waiting in known.waiting:
        if not waiting.done():  # a cancelled request
            waiting.set_result(result)
    known.waiting.clear()


def is_ours(document: Document) -> bool:
    """Whether it is Python that is read from its own text alone."""
    python = document.language_id == "python" or (document.filename or "").endswith(_SUFFIXES)
    return python and document.uri.startswith(_SCHEMES)
