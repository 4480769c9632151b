"""Editors that misbehave, and ends that come early: the server answers, logs one line, and goes on."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from lsprotocol import types

SERVER = Path(__file__).parents[2] / "server"
TEXT = "from torch.utils.checkpoint import checkpoint\ny = checkpoint(f, x)\n"
COMMAND = [sys.executable, "-m", "remat", "lsp"]
ENV = {**os.environ, "PYTHONPATH": str(SERVER)}


def message(method, params=None, identity=None):
    body = {"jsonrpc": "2.0", "method": method, "params": params or {}}
    if identity is not None:
        body["id"] = identity
    return frame(json.dumps(body).encode())


def frame(body):
    return b"Content-Length: %d\r\n\r\n" % len(body) + body


def opened(uri, text=TEXT):
    item = {"uri": uri, "languageId": "python", "version": 1, "text": text}
    return message("textDocument/didOpen", {"textDocument": item})


INITIALIZE = message("initialize", {"processId": None, "rootUri": None, "capabilities": {}}, 1)


def talk(*messages, wait=60):
    """Send all, hang up, and return the exit status with what the server said until then."""
    done = subprocess.run(COMMAND, input=b"".join(messages), capture_output=True, env=ENV, timeout=wait, check=False)
    said = [json.loads(part[part.index(b"{") :]) for part in done.stdout.split(b"Content-Length: ")[1:]]
    return done.returncode, said, done.stderr.decode()


def answers(said):
    return {m["id"]: m for m in said if "id" in m and "method" not in m}


@pytest.mark.parametrize("messages", [(), (INITIALIZE,), (INITIALIZE, message("initialized"), opened("file:///a.py"))])
def test_an_editor_that_hangs_up_ends_the_server_quietly(messages):
    status, _, errors = talk(*messages)
    assert (status, errors) == (0, "")


def test_an_editor_that_hangs_up_during_a_long_analysis_ends_it():
    text = TEXT + "".join(f"def f{i}(x):\n    return checkpoint(g, x, {i})\n\n" for i in range(1500))
    status, _, errors = talk(INITIALIZE, message("initialized"), opened("file:///a.py", text), wait=30)
    assert (status, errors) == (0, "")


def test_exit_without_shutdown_is_a_failure_as_the_protocol_says():
    assert talk(INITIALIZE, message("exit"))[0] == 1
    assert talk(INITIALIZE, message("shutdown", identity=2), message("exit"))[0] == 0


def test_an_argument_it_does_not_know_is_named():
    done = subprocess.run([*COMMAND, "--port", "3"], capture_output=True, text=True, env=ENV, check=False, timeout=60)
    assert done.returncode == 2
    assert "--port" in done.stderr


def test_malformed_requests_are_answered():
    wrong = {"textDocument": {"uri": "file:///a.py"}, "position": {"line": -1, "character": "x"}}
    status, said, _ = talk(
        INITIALIZE,
        message("textDocument/hover", wrong, 2),
        message("textDocument/hover", {}, 3),
        message("no/such/method", {}, 4),
        message("shutdown", identity=9),
    )
    replies = answers(said)
    assert {n: replies[n]["error"]["code"] for n in (2, 3, 4)} == {2: -32602, 3: -32602, 4: -32601}
    assert "result" in replies[9]
    assert status == 0


def test_messages_that_are_not_json_or_not_known_are_passed_over():
    status, said, _ = talk(
        INITIALIZE,
        frame(b"{"),
        frame(b"[]"),
        frame(b"\xff\xfe"),
        frame(b'{"jsonrpc": "1.0"}'),
        message("$/unknown"),
        message("textDocument/didChange", {"textDocument": {"uri": 3}}),
        message("shutdown", identity=9),
    )
    assert answers(said)[9]["result"] is None
    assert status == 0


def test_messages_before_initialize_do_not_end_the_server():
    status, said, _ = talk(
        opened("file:///a.py"),
        message(
            "textDocument/hover", {"textDocument": {"uri": "file:///a.py"}, "position": {"line": 0, "character": 0}}, 5
        ),
        INITIALIZE,
        message("shutdown", identity=9),
    )
    assert {1, 5, 9} <= set(answers(said))
    assert status == 0


async def test_what_is_said_about_documents_that_are_not_open_is_ignored(editor):
    client = editor.client
    which = types.TextDocumentIdentifier("file:///never.py")
    client.text_document_did_change(
        types.DidChangeTextDocumentParams(
            types.VersionedTextDocumentIdentifier(7, which.uri), [types.TextDocumentContentChangeWholeDocument("x")]
        )
    )
    client.text_document_did_close(types.DidCloseTextDocumentParams(which))
    client.text_document_did_save(types.DidSaveTextDocumentParams(which))
    place = types.Range(types.Position(0, 0), types.Position(99, 99))
    context = types.CodeActionContext([])
    assert list(await client.text_document_code_action_async(types.CodeActionParams(which, place, context)) or []) == []
    assert not [m for m in client.log_messages if m.type is types.MessageType.Error]


@pytest.mark.parametrize(
    "uri",
    ["http://host/a.py", "git:/a.py?ref", "file://server/share/a.py", "a.py", "", "untitled:", "file:///%ff%00.py"],
)
async def test_odd_addresses_do_no_harm(editor, uri):
    editor.buffers.pop(uri, None)
    item = types.TextDocumentItem(uri, "python", 1, TEXT)
    editor.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
    which = types.TextDocumentIdentifier(uri)
    await editor.client.text_document_hover_async(types.HoverParams(which, types.Position(1, 5)))
    editor.client.text_document_did_close(types.DidCloseTextDocumentParams(which))
    assert not [m for m in editor.client.log_messages if m.type is types.MessageType.Error]


async def test_positions_outside_of_the_text_do_no_harm(any_editor):
    any_editor.open("outside.py", TEXT)
    await any_editor.findings("outside.py")
    far = types.Range(types.Position(50, 7), types.Position(2**31 - 1, 2**31 - 1))
    which = types.TextDocumentIdentifier(any_editor.buffers["outside.py"].uri)
    assert await any_editor.client.text_document_hover_async(types.HoverParams(which, far.end)) is None
    assert await any_editor.actions("outside.py", place=far) == {}
    any_editor.change("outside.py", [types.TextDocumentContentChangePartial(far, "z = 1\n")], TEXT + "z = 1\n")
    assert len(await any_editor.findings("outside.py")) == 1


async def test_a_cancelled_request_is_answered_and_the_next_one_works(pulling):
    pulling.open("cancel.py", TEXT)
    which = types.TextDocumentIdentifier(pulling.buffers["cancel.py"].uri)
    asked = pulling.client.protocol.send_request(
        types.TEXT_DOCUMENT_DIAGNOSTIC, types.DocumentDiagnosticParams(which), msg_id="mine"
    )
    pulling.client.cancel_request(types.CancelParams("mine"))
    await pulling.until(asked.done, "an answer")
    assert asked.exception() is None or asked.exception().code == types.LSPErrorCodes.RequestCancelled
    assert len(await pulling.findings("cancel.py")) == 1


@pytest.mark.parametrize(
    "text",
    [
        "\x00" * 10,
        "checkpoint(\ud800)\n",
        "checkpoint" + "(" * 5000,
        'x = checkpoint("' + "a" * 1_000_000 + '")\n',
        "x = [" + "1, " * 300_000 + "]\n" + TEXT,
        "from torch.utils.checkpoint import checkpoint\n" + "\n" * 100_000 + "y = checkpoint(f, x)\n",
        "\ufeff\ufeffcheckpoint",
        "%matplotlib inline\n!pip install torch\ncheckpoint(f, x)\n",
    ],
    ids=["nulls", "surrogate", "brackets", "long-string", "long-line", "100000-lines", "boms", "magics"],
)
async def test_hard_texts_do_not_end_the_analysis(editor, text, request):
    name = request.node.callspec.id
    editor.open(f"{name}.py", text)
    editor.open(f"{name}_next.py", TEXT)
    assert len(await editor.findings(f"{name}_next.py")) == 1
    await editor.findings(f"{name}.py")
    assert not [m for m in editor.client.log_messages if m.type is types.MessageType.Error]


def process_file(editor, name):
    """A file of the server's process under /proc; empty where there is none."""
    path = Path(f"/proc/{editor.client._server.pid}/{name}")
    return path.read_text() if path.exists() else ""


async def test_the_first_answer_comes_before_the_linter_is_loaded(connect, tmp_path):
    async with connect(tmp_path) as editor:
        assert "libcst" not in process_file(editor, "maps")
        editor.open("a.py", TEXT)
        assert len(await editor.findings("a.py")) == 1


async def test_the_server_stays_small(connect, tmp_path):
    async with connect(tmp_path) as editor:
        text = TEXT + "".join(f"def f{i}(x, y, z=3):\n    return [x + y for _ in range(z)]\n\n" for i in range(3000))
        for n in range(5):
            editor.open(f"a{n}.py", text)
            for _ in range(10):
                editor.replace(f"a{n}.py", "z=3", "z=33")
                await asyncio.sleep(0.05)
            await editor.findings(f"a{n}.py")
        peak = process_file(editor, "status").partition("VmHWM:")[2].split()
        assert not peak or int(peak[0]) < 150 * 1024, f"{int(peak[0]) / 1024:.0f} MiB"
