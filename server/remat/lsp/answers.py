"""Answers to requests that take a while, one after the other in a thread beside the editor's messages."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from remat.lsp.analyst import Analyst, Question
from remat.lsp.one_thread import OneThread
from remat.protocol import Snapshot
from remat.surroundings import read_small

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from remat.finding import Finding
    from remat.lsp.plans import Prepared
    from remat.protocol import DiagnoseParams, Diagnosis, PlanAnswer, PlanParams

_LARGEST_CODE = 4 * 1024 * 1024  # bytes


class Answers:
    """Has an analyst of its own: the other one may be busy with what the user types."""

    def __init__(self) -> None:
        self._thread = OneThread("remat-answers")
        self._analyst = Analyst(_silent, _silent)
        self._ended = Event()

    async def diagnosis(
        self, params: DiagnoseParams, like: Analyst, texts: Mapping[str, str], encoding: str
    ) -> Diagnosis:
        """
        Diagnose a log; a cancelled request stops its work.

        `like`: the analyst whose options and roots hold. `texts`: the open documents by path. Raises OSError.
        """
        unwanted = Event()
        try:
            return await self._thread.do(partial(self._diagnosed, params, like, texts, encoding, unwanted))
        finally:
            unwanted.set()

    async def plan(self, params: PlanParams, like: Analyst, path: str, text: str) -> Prepared | PlanAnswer:
        """The edits of `text`, the file at `path`, that write a plan into it."""
        return await self._thread.do(partial(self._planned, params, like, path, text))

    async def snapshot(self, path: str) -> Snapshot:
        """What a run recorded. Raises OSError, and ValueError where the file is no snapshot."""
        return await self._thread.do(partial(_recorded, Path(path)))

    def end(self) -> None:
        """Let the thread stop at its next line of a log."""
        self._ended.set()
        self._thread.end()

    def _diagnosed(
        self, params: DiagnoseParams, like: Analyst, texts: Mapping[str, str], encoding: str, unwanted: Event
    ) -> Diagnosis:
        from remat.lsp.diagnosis import Workspace, diagnosis  # noqa: PLC0415 - needed by few, and slow to import

        self._analyst.renew()
        self._analyst.options, self._analyst.roots = like.options, like.roots
        workspace = Workspace(like.roots, partial(_text, texts), partial(self._look, texts), encoding)
        return diagnosis(params, workspace, lambda: not (unwanted.is_set() or self._ended.is_set()))

    def _planned(self, params: PlanParams, like: Analyst, path: str, text: str) -> Prepared | PlanAnswer:
        from pygls.uris import from_fs_path  # noqa: PLC0415 - `lsp` alone imports this module

        from remat.lint.rule import Context  # noqa: PLC0415 - imports libcst
        from remat.lsp.plans import prepared  # noqa: PLC0415 - needed by few

        self._analyst.renew()
        self._analyst.options, self._analyst.roots = like.options, like.roots
        outcome = self._analyst.answer(Question(from_fs_path(path) or "", path, text, None), lambda: True)
        return prepared(params, text, (outcome.context if outcome else None) or Context())

    def _look(self, texts: Mapping[str, str], path: str) -> tuple[str, Sequence[Finding]] | None:
        """The text that the user sees now, and what the linter finds in it."""
        from pygls.uris import from_fs_path  # noqa: PLC0415 - `lsp` alone imports this module

        text = _text(texts, path)
        if text is None:
            return None
        outcome = self._analyst.answer(Question(from_fs_path(path) or "", path, text, None), lambda: True)
        return (text, outcome.findings) if outcome else None


def _recorded(path: Path) -> Snapshot:
    from remat.probe.recorded import read_snapshot  # noqa: PLC0415 - needed by few

    timeline = read_snapshot(path)
    return Snapshot(path.name, timeline, max(map(sum, timeline.points), default=0))


def _text(texts: Mapping[str, str], path: str) -> str | None:
    return texts[path] if path in texts else read_small(path, _LARGEST_CODE)


def _silent(*_: object) -> None:
    """What is to be said of settings and versions is said by the analysis of the open files."""
