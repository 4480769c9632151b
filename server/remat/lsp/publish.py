"""How findings reach the editor: pushed with their version, or handed out when it asks; never both."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from lsprotocol import types
from pygls.exceptions import JsonRpcException

from remat.lsp.diagnostics import diagnostics

if TYPE_CHECKING:
    from remat.lsp.client import Client
    from remat.lsp.documents import Document
    from remat.lsp.protocol import Server
    from remat.lsp.session import Result, Session

_REFRESH_AFTER = 0.05  # seconds: all documents of a changed project come at once
Report = types.RelatedFullDocumentDiagnosticReport | types.RelatedUnchangedDocumentDiagnosticReport


class Publisher:
    def __init__(self, server: Server, client: Client) -> None:
        self._server, self._client = server, client
        self._refresh: asyncio.TimerHandle | None = None

    def finished(self, result: Result, edited: bool) -> None:  # noqa: FBT001 - called by the session
        """Push a new result; an editor that asks itself is told to, where it could not know that something changed."""
        document, count = result.document, len(result.findings)
        took = f"{result.seconds * 1e3:.0f} ms"
        self._server.log.write("debug", f"{document.uri}, version {document.version}: {count} findings in {took}")
        if not self._client.pulls:
            self.push(document.uri, _shown(result), document.version)
        elif not edited and self._client.refreshes and self._refresh is None:
            self._refresh = asyncio.get_running_loop().call_later(_REFRESH_AFTER, self._ask_to_refresh)

    def closed(self, uri: str) -> None:
        if not self._client.pulls:
            self.push(uri, [], None)

    def push(self, uri: str, shown: list[types.Diagnostic], version: int | None) -> None:
        self._server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, shown, version))

    def _ask_to_refresh(self) -> None:
        self._refresh = None
        self._server.workspace_diagnostic_refresh(None)


async def report(session: Session, document: Document | None, previous: str | None) -> Report:
    """Answer an editor that asks. Raises where an edit came first: it asks again, and shows what it has until then."""
    if document is None:
        return types.RelatedFullDocumentDiagnosticReport([])
    result = await session.result(document)
    if result is None:
        again = {"retriggerRequest": True}
        raise JsonRpcException("the document has changed", types.LSPErrorCodes.ServerCancelled.value, again)
    if result.identity == previous:
        return types.RelatedUnchangedDocumentDiagnosticReport(result.identity)
    return types.RelatedFullDocumentDiagnosticReport(_shown(result), result_id=result.identity)


def _shown(result: Result) -> list[types.Diagnostic]:
    return diagnostics(result.findings, result.document.places, result.document.version)
