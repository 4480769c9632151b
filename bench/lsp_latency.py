"""What a keystroke costs over the protocol: milliseconds from `didChange` to the findings of that version.

    python bench/lsp_latency.py [--keys 60] [--json]

Starts the server as an editor does, opens files of about 300 and 7,000 lines, and types: inside a checkpoint call,
after a bracket that is never closed, after a triple quote that is never closed. The pause that the server waits for the
next keystroke is part of each figure. In the same run a plain pygls + libcst server, which parses the whole file at
each change, is measured the same way. CPU is that of the server's process, per keystroke.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from engine import source

SERVER = Path(__file__).parent.parent / "server"
FILES = {"typical": (300, 60), "large": (7_000, 90)}
ANCHOR = "x = checkpoint(block, x)\n"
TYPING = {  # what is typed, and where in the anchor
    "inside a call": (", use_reentrant=False, x=1 ", len(ANCHOR) - 2),
    "open bracket": ("y = (self.norm(x), x ", 0),
    "open triple quote": ('"""a text that goes on ', 0),
}


@dataclass
class Connection:
    process: asyncio.subprocess.Process
    waiting: dict[object, asyncio.Future] = field(default_factory=dict)

    @classmethod
    async def start(cls, *command: str) -> Connection:
        env = {**os.environ, "PYTHONPATH": str(SERVER)}
        pipe = asyncio.subprocess.PIPE
        self = cls(await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, env=env))
        self.reader = asyncio.create_task(self.read())
        return self

    async def read(self) -> None:
        while header := await self.process.stdout.readline():
            if header.lower().startswith(b"content-length:"):
                while (await self.process.stdout.readline()).strip():
                    pass
                message = json.loads(await self.process.stdout.readexactly(int(header.split(b":")[1])))
                key = message.get("id")
                if message.get("method") == "textDocument/publishDiagnostics":
                    key = (message["params"]["uri"], message["params"]["version"])
                if (future := self.waiting.pop(key, None)) is not None:
                    future.set_result(message)

    def expect(self, key: object) -> asyncio.Future:
        self.waiting[key] = asyncio.get_running_loop().create_future()
        return self.waiting[key]

    def send(self, method: str, params: dict, identity: int | None = None) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        if identity is not None:
            message["id"] = identity
        body = json.dumps(message).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)

    def of_process(self, name: str, field: str) -> int:
        text = Path(f"/proc/{self.process.pid}/{name}").read_text()
        return int(text.split(field)[1].split()[0])

    def cpu(self) -> float:
        """Milliseconds that the process has run so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * 1e3 / os.sysconf("SC_CLK_TCK")


def position(text: str, offset: int) -> dict:
    return {"line": text.count("\n", 0, offset), "character": offset - (text.rfind("\n", 0, offset) + 1)}


@dataclass
class Typist:
    """Types into one open file, and notes how long each keystroke's findings took."""

    connection: Connection
    uri: str
    text: str
    version: int = 1

    async def open(self) -> float:
        shown = self.connection.expect((self.uri, 1))
        item = {"uri": self.uri, "languageId": "python", "version": 1, "text": self.text}
        start = time.perf_counter()
        self.connection.send("textDocument/didOpen", {"textDocument": item})
        await shown
        return (time.perf_counter() - start) * 1e3

    async def replace(self, start: int, end: int, new: str) -> float:
        self.version += 1
        place = {"start": position(self.text, start), "end": position(self.text, end)}
        self.text = self.text[:start] + new + self.text[end:]
        which = {"uri": self.uri, "version": self.version}
        shown = self.connection.expect((self.uri, self.version))
        begun = time.perf_counter()
        change = {"textDocument": which, "contentChanges": [{"range": place, "text": new}]}
        self.connection.send("textDocument/didChange", change)
        await shown
        return (time.perf_counter() - begun) * 1e3

    async def type(self, words: str, at: int, keys: int) -> list[float]:
        """So many keystrokes; the text is as before afterwards."""
        typed = (words * keys)[:keys]
        times = []
        for n, key in enumerate(typed):
            times.append(await self.replace(at + n, at + n, key))
            await asyncio.sleep(0.01)
        await self.replace(at, at + keys, "")
        return times


async def measure(command: list[str], keys: int, large_keys: int) -> dict:
    connection = await Connection.start(*command)
    answered = connection.expect(0)
    begun = time.perf_counter()
    connection.send("initialize", {"processId": None, "rootUri": None, "capabilities": {}}, 0)
    await answered
    result: dict = {"initialize": (time.perf_counter() - begun) * 1e3, "files": {}}
    connection.send("initialized", {})
    for name, (lines, _) in FILES.items():
        typist = Typist(connection, f"untitled:{name}.py", source(lines))
        rows = result["files"][name] = {"open": await typist.open()}
        count = keys if name == "typical" else large_keys
        for what, (words, shift) in TYPING.items():
            before = connection.cpu()
            times = sorted(await typist.type(words, typist.text.index(ANCHOR) + shift, count))
            rows[what] = {
                "p50": times[len(times) // 2],
                "p95": times[min(int(len(times) * 0.95), len(times) - 1)],
                "cpu": (connection.cpu() - before) / (count + 1),
            }
    result["rss"] = connection.of_process("status", "VmHWM:") / 1024
    connection.process.stdin.close()
    await connection.process.wait()
    await connection.reader
    return result


def plain_server() -> None:
    """What one writes first: pygls and libcst, the whole file parsed and visited at each change."""
    # ruff: noqa: PLC0415, N802 - only this process has them, and libcst names its methods so
    import libcst as cst
    from libcst.metadata import MetadataWrapper, PositionProvider
    from lsprotocol import types
    from pygls.lsp.server import LanguageServer

    server = LanguageServer("plain", "1")

    class Calls(cst.CSTVisitor):
        METADATA_DEPENDENCIES = (PositionProvider,)

        def __init__(self) -> None:
            self.found: list[types.Diagnostic] = []

        def visit_Call(self, node: cst.Call) -> None:
            named = isinstance(node.func, cst.Name) and node.func.value == "checkpoint"
            if named and not any(a.keyword and a.keyword.value == "use_reentrant" for a in node.args):
                at = self.get_metadata(PositionProvider, node).start
                place = types.Position(at.line - 1, at.column)
                self.found.append(types.Diagnostic(types.Range(place, place), "no use_reentrant"))

    def publish(uri: str) -> None:
        document = server.workspace.get_text_document(uri)
        calls = Calls()
        with contextlib.suppress(cst.ParserSyntaxError):
            MetadataWrapper(cst.parse_module(document.source), unsafe_skip_copy=True).visit(calls)
        shown = types.PublishDiagnosticsParams(uri, calls.found, document.version)
        server.text_document_publish_diagnostics(shown)

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def opened(params: types.DidOpenTextDocumentParams) -> None:
        publish(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def changed(params: types.DidChangeTextDocumentParams) -> None:
        publish(params.text_document.uri)

    server.start_io()


def show(name: str, result: dict) -> None:
    print(f"{name}: initialize answered after {result['initialize']:.0f} ms, at most {result['rss']:.0f} MiB")
    for file, rows in result["files"].items():
        lines, wanted = FILES[file]
        print(f"  {lines} lines, findings {rows['open']:.0f} ms after opening")
        for what in TYPING:
            row = rows[what]
            print(
                f"    {what:18} p50 {row['p50']:7.1f}  p95 {row['p95']:7.1f}   CPU {row['cpu']:7.1f}"
                + (f"   wanted: p95 <= {wanted}" if name == "remat" else "")
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=60)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--plain-server", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.plain_server:
        plain_server()
        return
    load = os.getloadavg()[0]
    results = {
        "remat": asyncio.run(measure([sys.executable, "-m", "remat", "lsp"], args.keys, args.keys)),
        "plain": asyncio.run(measure([sys.executable, __file__, "--plain-server"], max(args.keys // 3, 5), 5)),
    }
    if args.json:
        print(json.dumps(results | {"load": load}))
        return
    print(f"milliseconds; the machine's load was {load:.1f} on {os.cpu_count()} cores")
    for name, result in results.items():
        show(name, result)


if __name__ == "__main__":
    main()
