"""An editor for the tests: the language server as a real process, texts kept as an editor keeps them."""

import asyncio
import contextlib
import os
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from lsprotocol import types
from pytest_lsp import LanguageClient, client_capabilities
from pytest_lsp.client import DEFAULT_CLIENT_FEATURES, default_converter, register_lsp_features

SERVER = Path(__file__).parents[2] / "server"
PROFILES = {"visual_studio_code": "utf-16", "neovim": "utf-8", "emacs": "utf-32"}
LONGEST = 20.0  # seconds to wait for anything; a busy machine is slow
WIDTH = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}


def columns(text: str, encoding: str) -> int:
    codec, size = WIDTH[encoding]
    return len(text.encode(codec)) // size


@dataclass
class Buffer:
    uri: str
    text: str
    version: int = 1


@dataclass
class Editor:
    client: LanguageClient
    folder: Path
    encoding: str
    pulls: bool
    result: types.InitializeResult
    published: list[types.PublishDiagnosticsParams]
    registered: list[types.Registration]
    buffers: dict[str, Buffer] = field(default_factory=dict)

    def uri(self, name: str) -> str:
        return name if ":" in name else (self.folder / name).as_uri()

    def open(self, name: str, text: str, language: str = "python") -> Buffer:
        buffer = self.buffers[name] = Buffer(self.uri(name), text)
        item = types.TextDocumentItem(buffer.uri, language, buffer.version, text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        return buffer

    def close(self, name: str) -> None:
        buffer = self.buffers.pop(name)
        self.client.text_document_did_close(types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(buffer.uri)))

    def save(self, name: str) -> None:
        buffer = self.buffers[name]
        (self.folder / name).write_text(buffer.text, encoding="utf-8")
        self.client.text_document_did_save(types.DidSaveTextDocumentParams(types.TextDocumentIdentifier(buffer.uri)))

    def position(self, text: str, offset: int) -> types.Position:
        """As an editor counts: lines end at LF, CRLF or CR."""
        before = text[:offset].replace("\r\n", "\n").replace("\r", "\n")
        return types.Position(before.count("\n"), columns(before.rpartition("\n")[2], self.encoding))

    def offset(self, text: str, position: types.Position) -> int:
        return next(i for i in range(len(text) + 1) if self.position(text, i) == position)

    def shown(self, name: str, place: types.Range) -> str:
        """The text that a range covers."""
        text = self.buffers[name].text
        return text[self.offset(text, place.start) : self.offset(text, place.end)]

    def replace(self, name: str, old: str, new: str) -> None:
        """Type `new` in the place of the first `old`."""
        buffer = self.buffers[name]
        start = buffer.text.index(old)
        end = start + len(old)
        place = types.Range(self.position(buffer.text, start), self.position(buffer.text, end))
        self.change(
            name, [types.TextDocumentContentChangePartial(place, new)], buffer.text[:start] + new + buffer.text[end:]
        )

    def change(self, name: str, changes: list[types.TextDocumentContentChangeEvent], text: str) -> None:
        buffer = self.buffers[name]
        buffer.text, buffer.version = text, buffer.version + 1
        document = types.VersionedTextDocumentIdentifier(buffer.version, buffer.uri)
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(document, changes))

    async def until(self, found: Callable[[], object], what: str) -> None:
        end = time.monotonic() + LONGEST
        while not found():
            if time.monotonic() > end:
                raise TimeoutError(f"waited {LONGEST} s for {what}")
            await asyncio.sleep(0.005)

    async def findings(self, name: str) -> list[types.Diagnostic]:
        """What the editor shows for the present version."""
        buffer = self.buffers[name]
        if self.pulls:
            return list((await self.pull(name)).items)
        published = [p for p in self.published if (p.uri, p.version) == (buffer.uri, buffer.version)]
        await self.until(
            lambda: (
                published
                or published.extend(p for p in self.published if (p.uri, p.version) == (buffer.uri, buffer.version))
            ),
            f"findings of version {buffer.version}",
        )
        return list([p for p in self.published if p.uri == buffer.uri][-1].diagnostics)

    async def pull(self, name: str, previous: str | None = None) -> types.DocumentDiagnosticReport:
        which = types.TextDocumentIdentifier(self.buffers[name].uri)
        params = types.DocumentDiagnosticParams(which, previous_result_id=previous)
        return await self.client.text_document_diagnostic_async(params)

    async def findings_become(self, name: str, wanted: Callable[[list[types.Diagnostic]], bool]) -> None:
        """Wait until what is shown is as wanted, after a change outside of the text."""
        end = time.monotonic() + LONGEST
        while not wanted(found := await self.findings(name)):
            assert time.monotonic() < end, f"still shown: {[(d.code, d.message) for d in found]}"
            await asyncio.sleep(0.02)

    async def actions(
        self, name: str, *diagnostics: types.Diagnostic, only: list[str] | None = None, place: types.Range | None = None
    ) -> dict[str, types.CodeAction]:
        """The code actions offered, by title."""
        place = place or (
            diagnostics[0].range if diagnostics else types.Range(types.Position(0, 0), types.Position(0, 0))
        )
        which = types.TextDocumentIdentifier(self.buffers[name].uri)
        context = types.CodeActionContext(list(diagnostics), only=only)
        params = types.CodeActionParams(which, place, context)
        found = await self.client.text_document_code_action_async(params) or []
        assert len({action.title for action in found}) == len(found), "each offer once"
        return {action.title: action for action in found}

    def applied(self, name: str, action: types.CodeAction) -> str:
        """The text after an action, applied as an editor does: only where it was made for this version."""
        buffer = self.buffers[name]
        if action.edit.document_changes:
            (change,) = action.edit.document_changes
            assert (change.text_document.uri, change.text_document.version) == (buffer.uri, buffer.version)
            edits = change.edits
        else:
            edits = action.edit.changes[buffer.uri]
        places = [
            (self.offset(buffer.text, e.range.start), self.offset(buffer.text, e.range.end), e.new_text) for e in edits
        ]
        text = buffer.text
        for start, end, new in sorted(places, reverse=True):
            text = text[:start] + new + text[end:]
        return text


def capabilities(profile: str, *, pull: bool | None = None) -> types.ClientCapabilities:
    found = client_capabilities(profile)
    if pull is True:
        found.text_document.diagnostic = types.DiagnosticClientCapabilities(dynamic_registration=False)
        found.workspace.diagnostics = types.DiagnosticWorkspaceClientCapabilities(refresh_support=True)
    if pull is False:
        found.text_document.diagnostic = None
    return found


@contextlib.asynccontextmanager
async def connection(
    folder: Path,
    profile: str = "visual_studio_code",
    *,
    pull: bool | None = None,
    options: object = None,
    roots: list[Path] | None = None,
    watched: bool = True,
    environ: dict[str, str] | None = None,
):
    """A server process that has been initialized as this editor does it."""
    published: list[types.PublishDiagnosticsParams] = []
    registered: list[types.Registration] = []

    def publish(_: LanguageClient, params: types.PublishDiagnosticsParams) -> None:
        params.diagnostics = list(params.diagnostics)
        published.append(params)

    def register(_: LanguageClient, params: types.RegistrationParams) -> None:
        registered.extend(params.registrations)

    client = LanguageClient(converter_factory=default_converter)
    mine = {types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS: publish, types.CLIENT_REGISTER_CAPABILITY: register}
    register_lsp_features(client, {**DEFAULT_CLIENT_FEATURES, **mine})
    clean = {k: v for k, v in os.environ.items() if k not in {"VIRTUAL_ENV", "CONDA_PREFIX"}}
    env = {**clean, "PYTHONPATH": str(SERVER), **(environ or {})}
    await client.start_io(sys.executable, "-m", "remat", "lsp", env=env, cwd=str(folder))
    wanted = capabilities(profile, pull=pull)
    if not watched:
        wanted.workspace.did_change_watched_files = None
    folders = [types.WorkspaceFolder(root.as_uri(), root.name) for root in roots or [folder]]
    params = types.InitializeParams(
        wanted, root_uri=folder.as_uri(), workspace_folders=folders, initialization_options=options
    )
    result = await client.initialize_session(params)
    encoding = str(getattr(result.capabilities.position_encoding, "value", result.capabilities.position_encoding))
    pulls = result.capabilities.diagnostic_provider is not None
    yield Editor(client, folder, encoding, pulls, result, published, registered)
    await client.shutdown_session()
    assert client._server.returncode == 0
    await client.stop()


@pytest.fixture(scope="module")
def connect():
    return connection


@pytest.fixture(scope="module", params=list(PROFILES))
async def any_editor(request, tmp_path_factory):
    """Each of the three editors, one server for all tests of a module."""
    async with connection(tmp_path_factory.mktemp("project"), request.param) as editor:
        assert editor.encoding == PROFILES[request.param]
        yield editor


@pytest.fixture(scope="module")
async def editor(tmp_path_factory):
    """VS Code, with pushed findings; one server for all tests of a module."""
    async with connection(tmp_path_factory.mktemp("project"), pull=False) as editor:
        yield editor


@pytest.fixture(scope="module")
async def pulling(tmp_path_factory):
    """VS Code as it is today: it asks for findings."""
    async with connection(tmp_path_factory.mktemp("project"), pull=True) as editor:
        yield editor


@pytest.fixture(scope="module")
def program():
    """Make sure that an editor is installed (`npm test` installs it where it may), or say how."""

    def need(name: str, *packages: str) -> None:
        if shutil.which(name) is None:
            pytest.fail(f"{name} is needed for this test; install it: sudo apt-get install {' '.join(packages)}")

    return need
