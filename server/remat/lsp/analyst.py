"""The analysis of one text in its surroundings: the part of the server that runs beside the editor's messages."""

# The linter and what reads the disk are imported by the first question: `initialize` is answered before.
# ruff: noqa: PLC0415
from __future__ import annotations

import gc
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from remat.finding import Finding
    from remat.lint.check import Analysis
    from remat.lint.rule import Context
    from remat.lsp.contexts import Contexts, Problems
    from remat.lsp.options import Options


@dataclass(frozen=True, slots=True)
class Outcome:
    """`analysis` makes that of the next version cheap; None where the file is excluded."""

    text: str
    context: Context | None
    analysis: Analysis | None
    seconds: float

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self.analysis.findings if self.analysis else ()


@dataclass(frozen=True, slots=True)
class Question:
    """A text to analyse. `path` is that of an unsaved document, too, then one that does not exist."""

    uri: str
    path: str
    text: str
    before: Outcome | None


def collect_garbage_rarely() -> None:
    """For a process that keeps the trees of many files: a full collection walks them all, 30 ms for 26,000 lines.

    What an edit drops holds no cycles, and goes without the collector.
    """
    gc.set_threshold(10_000, 20, 50)


class Analyst:
    """`say` and `tell` are those of `Contexts`. `options`, `roots`, `watched` may be set at any time."""

    def __init__(self, say: Callable[[str, str], None], tell: Callable[[str, Problems], None]) -> None:
        collect_garbage_rarely()
        self._say, self._tell = say, tell
        self._contexts: Contexts | None = None
        self._outdated = False
        self._told: set[str] = set()  # documents with a statement too large to be read
        self.options: Options
        self.roots: tuple[str, ...] = ()
        self.watched = False

    def renew(self) -> None:
        """Let the next answer read the surroundings anew."""
        self._outdated = True

    def answer(self, question: Question, is_current: Callable[[], bool]) -> Outcome | None:
        """None where the question is no longer of interest. The outcome before is given back where nothing differs."""
        from remat.lint.check import analyse
        from remat.lint.code.parsed import LARGEST

        begun = time.perf_counter()
        context = self._context(question)
        before = question.before
        if before and before.text == question.text and before.context == context:
            return before
        if context is None:
            return Outcome(question.text, None, None, 0.0)
        analysis = analyse(question.text, context, before.analysis if before else None, is_current)
        if analysis and question.uri not in self._told and any(one.too_large for one in analysis.unread):
            self._told.add(question.uri)
            self._say("info", f"{question.uri}: a statement of more than {LARGEST:,} characters is not checked")
        return Outcome(question.text, context, analysis, time.perf_counter() - begun) if analysis else None

    def _context(self, question: Question) -> Context | None:
        from remat.lint.rule import Context

        if self._contexts is None:
            from remat.lsp.contexts import Contexts

            self._contexts = Contexts(self._say, self._tell)
        if self._outdated:
            self._outdated = False
            self._contexts.renew()
        path, root = question.path, self._root(question.path)
        if not question.uri.startswith("file:"):
            if not root:
                return Context()
            path = os.path.join(root, "untitled.py")  # noqa: PTH118 - paths are str in what is asked
        return self._contexts.of(path, question.text, root, self.options, watched=self.watched)

    def _root(self, path: str) -> str:
        """The workspace folder a path is in; the first one for an unsaved document."""
        around = [root for root in self.roots if path.startswith(os.path.join(root, ""))]  # noqa: PTH118
        if around:
            return max(around, key=len)
        return "" if os.path.isabs(path) else next(iter(self.roots), "")  # noqa: PTH117
