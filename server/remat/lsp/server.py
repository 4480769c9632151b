"""The language server as editors see it: which messages it understands, and what each of them does."""

from __future__ import annotations

import logging
import os
import platform
import sys
from functools import partial
from typing import TYPE_CHECKING

from lsprotocol import types
from pygls.uris import from_fs_path, to_fs_path

from remat import __version__
from remat.lsp.actions import KINDS, Editor, code_actions
from remat.lsp.analyst import Analyst
from remat.lsp.client import Client
from remat.lsp.documents import Documents
from remat.lsp.extensions import Extensions, Say
from remat.lsp.hover import hover
from remat.lsp.options import Options, read_options
from remat.lsp.protocol import Server
from remat.lsp.publish import Publisher, Report, report
from remat.lsp.requests import as_json
from remat.lsp.session import Session
from remat.protocol import ADVISE, APPLY_PLAN, DIAGNOSE, PROBE, PROBE_PROGRESS, PROBE_TARGETS, SNAPSHOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from remat.finding import Edit
    from remat.lsp.contexts import Problems
    from remat.lsp.documents import Document
    from remat.protocol import ProbeProgress

WATCHED = ("**/pyproject.toml", "**/{.gitignore,.ignore}", "**/*.{json,yaml,yml}", "**/*.py")
_PATIENCE = 1.0  # seconds that an analysis may take to end when the server does


class Conversation:
    """One editor's session with the server, from `initialize` on. Its methods are the messages."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.options = Options()
        self.client = Client()
        self.left = False  # the editor said `exit`; it may also just hang up
        self.session: Session
        self.documents: Documents
        self.publisher: Publisher
        self.analyst = Analyst(self._say, self._tell)
        self.extensions = Extensions(lambda: self.documents, self.analyst, Say(self._probing, self._note, self._edit))

    def initialize(self, params: types.InitializeParams) -> None:
        server, old = self.server, self.server.workspace
        self.client = Client.of(params.capabilities)
        folders = list(old.folders.values())
        self.documents = Documents(old.root_uri, workspace_folders=folders, position_encoding=old.position_encoding)
        server.protocol.take_workspace(self.documents)
        self.publisher = Publisher(server, self.client)
        self.session = Session(self.analyst, self.documents.find, self.publisher.finished, server.log.unexpected)
        self.analyst.watched = self.client.watches
        self._read_options(params.initialization_options)
        self._read_roots()
        if self.client.pulls:
            how = types.DiagnosticOptions(
                inter_file_dependencies=False, workspace_diagnostics=False, identifier="remat"
            )
            server.feature(types.TEXT_DOCUMENT_DIAGNOSTIC, how)(partial(self.pull))
        if self.options.probe:
            server.feature(types.TEXT_DOCUMENT_CODE_LENS)(partial(self.extensions.lenses))

    def initialized(self, _: types.InitializedParams) -> None:
        how = "asks for findings" if self.client.pulls else "is sent findings"
        columns = getattr(self.documents.position_encoding, "value", self.documents.position_encoding)
        about = f"remat {__version__} on Python {platform.python_version()}; the editor {how}, columns are {columns}"
        self.server.log.write("info", about)
        if self.client.watches:
            method = types.WORKSPACE_DID_CHANGE_WATCHED_FILES
            watchers = [types.FileSystemWatcher(pattern) for pattern in WATCHED]
            options = types.DidChangeWatchedFilesRegistrationOptions(watchers)
            registration = types.Registration("remat-files", method, options)
            self.server.client_register_capability(types.RegistrationParams([registration]))

    def opened(self, params: types.DidOpenTextDocumentParams) -> None:
        document = self.documents.find(params.text_document.uri)
        if document is not None:
            self.session.opened(document)

    def changed(self, params: types.DidChangeTextDocumentParams) -> None:
        document = self.documents.find(params.text_document.uri)
        if document is not None:
            self.session.changed(document)

    def closed(self, params: types.DidCloseTextDocumentParams) -> None:
        if self.session.closed(params.text_document.uri):
            self.publisher.closed(params.text_document.uri)

    def saved(self, _: types.DidSaveTextDocumentParams) -> None:
        self.extensions.files_changed()
        self.session.surroundings_changed()

    def files_changed(self, _: types.DidChangeWatchedFilesParams) -> None:
        self.extensions.files_changed()
        self.session.surroundings_changed()

    def folders_changed(self, _: types.DidChangeWorkspaceFoldersParams) -> None:
        self._read_roots()
        self.session.surroundings_changed()

    def configured(self, params: types.DidChangeConfigurationParams) -> None:
        self._read_options(params.settings)
        self.session.surroundings_changed()

    async def pull(self, params: types.DocumentDiagnosticParams) -> Report:
        return await report(self.session, self.documents.find(params.text_document.uri), params.previous_result_id)

    async def actions(self, params: types.CodeActionParams) -> list[types.CodeAction]:
        document = self.documents.find(params.text_document.uri)
        result = await self.session.result(document) if document else None
        if document is None or result is None:
            return []
        return code_actions(document, result.findings, params, Editor(self.client.versioned_edits))

    async def hovered(self, params: types.HoverParams) -> types.Hover | None:
        document = self.documents.find(params.text_document.uri)
        result = await self.session.result(document) if document else None
        if document is None or result is None:
            return None
        return hover(document, result.findings, params.position, self.client.markup)

    def exited(self, _: None) -> None:
        self.left = True

    def end(self, patience: float) -> bool:
        """End the analysis; False where one goes on regardless."""
        self.extensions.end()
        return self.session.end(patience) if hasattr(self, "session") else True

    def _read_options(self, given: object) -> None:
        self.options, complaints = read_options(given, self.options)
        self.analyst.options = self.options
        self.server.log.level = self.options.log_level
        for complaint in complaints:
            self.server.log.write("warning", complaint)

    def _read_roots(self) -> None:
        folders = [to_fs_path(folder.uri) for folder in self.documents.folders.values()]
        self.analyst.roots = tuple(filter(None, folders or [self.documents.root_path]))

    def _say(self, level: str, sentence: str) -> None:
        """Called by the analyst, in its thread. A warning is shown, too: the user chose what does not work."""
        if level == "warning":
            params = types.ShowMessageParams(types.MessageType.Warning, sentence)
            self.session.from_thread(lambda: self.server.window_show_message(params))
        self.session.from_thread(lambda: self.server.log.write(level, sentence))

    def _probing(self, progress: ProbeProgress) -> None:
        self.server.protocol.notify(PROBE_PROGRESS, as_json(progress))

    def _note(self, sentence: str) -> None:
        self.server.log.write("info", sentence)

    async def _edit(self, document: Document, edits: Iterable[Edit], label: str) -> bool:
        """Have the editor make the edits; whether it did."""
        edit = Editor(self.client.versioned_edits).edit(document, edits)
        answer = await self.server.workspace_apply_edit_async(types.ApplyWorkspaceEditParams(edit, label))
        return answer.applied

    def _tell(self, path: str, problems: Problems) -> None:
        """Called by the analyst, in its thread: show what is wrong in a pyproject.toml, or that nothing is any more."""
        from remat.lsp.configuration import configuration_diagnostics  # noqa: PLC0415 - needed by few
        from remat.surroundings import read_small  # noqa: PLC0415

        text = read_small(path, 1 << 20) or ""
        shown = configuration_diagnostics(text, problems, self.documents.position_encoding or "utf-16")
        uri = from_fs_path(path) or path
        self.session.from_thread(lambda: self.publisher.push(uri, shown, None))


def build() -> tuple[Server, Conversation]:
    server = Server()
    talk = Conversation(server)
    for method, handler in (
        (types.INITIALIZE, talk.initialize),
        (types.INITIALIZED, talk.initialized),
        (types.TEXT_DOCUMENT_DID_OPEN, talk.opened),
        (types.TEXT_DOCUMENT_DID_CHANGE, talk.changed),
        (types.TEXT_DOCUMENT_DID_CLOSE, talk.closed),
        (types.TEXT_DOCUMENT_DID_SAVE, talk.saved),
        (types.WORKSPACE_DID_CHANGE_WATCHED_FILES, talk.files_changed),
        (types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS, talk.folders_changed),
        (types.WORKSPACE_DID_CHANGE_CONFIGURATION, talk.configured),
        (types.TEXT_DOCUMENT_HOVER, talk.hovered),
        (types.EXIT, talk.exited),
        (DIAGNOSE, talk.extensions.diagnosed),
        (PROBE, talk.extensions.probed),
        (ADVISE, talk.extensions.advised),
        (APPLY_PLAN, talk.extensions.planned),
        (SNAPSHOT, talk.extensions.recorded),
        (PROBE_TARGETS, talk.extensions.targets),
    ):
        server.feature(method)(partial(handler))  # pygls marks what it is given, which no bound method allows
    server.feature(types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions(code_action_kinds=KINDS))(
        partial(talk.actions)
    )
    return server, talk


def main(arguments: Sequence[str] = ()) -> None:
    """Serve one editor on standard input and output until it hangs up."""
    if any(argument != "--stdio" for argument in arguments):
        sys.stderr.write(f"remat lsp: expected no arguments, or --stdio; got {' '.join(arguments)}\n")
        sys.exit(2)
    if sys.stdin.isatty():
        sys.stderr.write("remat lsp: waiting for an editor's messages on standard input; Ctrl+D ends it\n")
    logging.getLogger("pygls").setLevel(logging.CRITICAL + 1)  # what matters reaches the editor's log
    output, sys.stdout = sys.stdout.buffer, sys.stderr  # a stray print would corrupt the messages
    server, talk = build()
    server.start_io(sys.stdin.buffer, output)
    ended = talk.end(_PATIENCE)
    status = 1 if talk.left and not server.protocol.was_shut_down else 0  # as the protocol says
    sys.stderr.flush()
    if not ended:
        os._exit(status)  # a thread inside the parser would crash while Python ends
    if status:
        sys.exit(status)
