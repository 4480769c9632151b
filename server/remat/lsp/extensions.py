"""What Remat adds to LSP: logs are diagnosed, models are found and probed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams

from remat.lsp.answers import Answers
from remat.lsp.probe_targets import probe_targets
from remat.lsp.probes import Probes
from remat.lsp.requests import (
    advise_params,
    as_json,
    diagnose_params,
    plan_params,
    probe_params,
    probe_targets_params,
    snapshot_params,
)
from remat.protocol import PlanAnswer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from remat.finding import Edit
    from remat.lsp.analyst import Analyst
    from remat.lsp.documents import Document, Documents
    from remat.protocol import ProbeProgress, ProbeTarget

PROBE_COMMAND = "remat.probe"  # the client's, which takes a ProbeTarget


@dataclass(frozen=True, slots=True)
class Say:
    """How to tell the editor what is being done, and what is for its log; how to have it `edit`, and whether it did."""

    progress: Callable[[ProbeProgress], None]
    log: Callable[[str], None]
    edit: Callable[[Document, Iterable[Edit], str], Awaitable[bool]]


class Extensions:
    """`documents` gives those of the present session."""

    def __init__(self, documents: Callable[[], Documents], analyst: Analyst, say: Say) -> None:
        self._documents, self._analyst = documents, analyst
        self._answers = Answers()
        self._probes = Probes(say.progress, say.log)
        self._edit = say.edit

    async def diagnosed(self, given: object) -> object:
        """Diagnose a log; what stands in the way is said to the user in so many words."""
        documents = self._documents()
        try:
            params = diagnose_params(given)
            texts = {document.path: document.source for document in documents.opened()}
            encoding = documents.position_encoding or types.PositionEncodingKind.Utf16
            return as_json(await self._answers.diagnosis(params, self._analyst, texts, encoding))
        except ValueError as error:
            raise JsonRpcInvalidParams(str(error)) from error
        except OSError as error:
            said = f"{error.filename or 'the log'} cannot be read: {error.strerror or error}"
            raise JsonRpcException(said, code=types.LSPErrorCodes.RequestFailed) from error

    async def probed(self, given: object) -> object:
        """Estimate or measure the memory of a model's step in a process of its own."""
        try:
            params = probe_params(given)
        except ValueError as error:
            raise JsonRpcInvalidParams(str(error)) from error
        python = self._analyst.options.interpreter_for(params.target)
        return as_json(await self._probes.answer(params, python))

    async def advised(self, given: object) -> object:
        """Say what to change about a model, with each change simulated."""
        try:
            params = advise_params(given)
        except ValueError as error:
            raise JsonRpcInvalidParams(str(error)) from error
        python = self._analyst.options.interpreter_for(params.target)
        return as_json(await self._probes.advise(params, python))

    async def planned(self, given: object) -> object:
        """Have the editor write a plan into the model's file; or say why not, and what to write by hand."""
        from remat.lsp.plans import file_of, without_file  # noqa: PLC0415 - needed by few

        try:
            params = plan_params(given)
        except ValueError as error:
            raise JsonRpcInvalidParams(str(error)) from error
        file = file_of(params)
        if file is None:
            return as_json(without_file())
        document = next((one for one in self._documents().opened() if one.path == str(file)), None)
        if document is None:
            return as_json(PlanAnswer(applied=False, what=f"Open {file.name} first: the change is made in the editor"))
        version, text = document.version, document.source
        found = await self._answers.plan(params, self._analyst, document.path, text)
        if isinstance(found, PlanAnswer):
            return as_json(found)
        done = document.version == version and await self._edit(document, found.edits, found.answer.what)
        refused = PlanAnswer(applied=False, what=f"{file.name} has changed meanwhile, and nothing was written")
        return as_json(replace(found.answer, uri=document.uri) if done else refused)

    async def recorded(self, given: object) -> object:
        """Read a memory snapshot; nothing in it is run."""
        try:
            return as_json(await self._answers.snapshot(snapshot_params(given).path))
        except ValueError as error:
            raise JsonRpcInvalidParams(str(error)) from error
        except OSError as error:
            said = f"{error.filename or 'the file'} cannot be read: {error.strerror or error}"
            raise JsonRpcException(said, code=types.LSPErrorCodes.RequestFailed) from error

    def files_changed(self) -> None:
        self._probes.changed()

    def targets(self, given: object) -> object:
        try:
            params = probe_targets_params(given)
        except ValueError as error:
            raise JsonRpcInvalidParams(str(error)) from error
        return as_json(self._targets(params.uri))

    def lenses(self, params: types.CodeLensParams) -> list[types.CodeLens]:
        return [_lens(target) for target in self._targets(params.text_document.uri)]

    def end(self) -> None:
        self._answers.end()
        self._probes.end()

    def _targets(self, uri: str) -> list[ProbeTarget]:
        document = self._documents().find(uri)
        if document is None or not uri.startswith("file:"):  # the probe reads files
            return []
        return probe_targets(document.path, document.lines)


def _lens(target: ProbeTarget) -> types.CodeLens:
    start = types.Position(target.line, 0)
    command = types.Command("Probe memory", PROBE_COMMAND, arguments=[as_json(target)])
    return types.CodeLens(types.Range(start, start), command)
