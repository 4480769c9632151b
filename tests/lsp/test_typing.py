"""While someone types: nothing stale, nothing lost, nothing that stands still."""

import asyncio
import time

from lsprotocol import types

IMPORT = "from torch.utils.checkpoint import checkpoint\n\n\n"
TWO = (
    IMPORT
    + """def first(x):
    return checkpoint(block, x)


def second(x):
    y = 1
    return checkpoint(block, x, y)
"""
)


def lines(found):
    return [d.range.start.line for d in found]


async def test_rapid_edits_publish_nothing_stale(editor):
    buffer = editor.open("rapid.py", TWO)
    for n in range(60):
        editor.replace("rapid.py", "y = 1", "y = 11") if n % 2 == 0 else editor.replace("rapid.py", "y = 11", "y = 1")
        await asyncio.sleep(0.002 * (n % 7))
        shown = [p for p in editor.published if p.uri == buffer.uri and p.version is not None]
        assert [p.version for p in shown] == sorted({p.version for p in shown})
    assert lines(await editor.findings("rapid.py")) == [4, 9]
    await asyncio.sleep(0.2)
    assert [p for p in editor.published if p.uri == buffer.uri][-1].version == buffer.version


async def test_a_burst_of_keystrokes_is_analysed_once(editor):
    buffer = editor.open("burst.py", TWO)
    await editor.findings("burst.py")
    for n in range(20):
        editor.replace("burst.py", f"y = {'1' * (n + 1)}", f"y = {'1' * (n + 2)}")
    await editor.findings("burst.py")
    await asyncio.sleep(0.1)
    assert len([p for p in editor.published if p.uri == buffer.uri]) <= 6


async def test_an_open_bracket_keeps_findings_elsewhere_and_its_own_without_a_fix(any_editor):
    any_editor.open("bracket.py", TWO)
    assert lines(await any_editor.findings("bracket.py")) == [4, 9]
    any_editor.replace("bracket.py", "y = 1\n", "y = (\n")
    found = await any_editor.findings("bracket.py")
    assert lines(found) == [4, 9]
    assert ["fix" in d.data for d in found] == [True, False]


async def test_an_open_triple_quote_keeps_what_stands_above_and_below(any_editor):
    any_editor.open("quote.py", TWO)
    await any_editor.findings("quote.py")
    any_editor.replace("quote.py", "def second", 'text = """\n\n\ndef second')
    found = await any_editor.findings("quote.py")
    assert lines(found)[0] == 4
    assert all(any_editor.shown("quote.py", d.range) == "checkpoint" for d in found)
    any_editor.replace("quote.py", 'text = """\n\n\ndef', 'text = """\n"""\n\n\ndef')
    assert lines(await any_editor.findings("quote.py")) == [4, 13]


async def test_a_kept_finding_moves_with_what_is_typed_above_it(any_editor):
    any_editor.open("moved.py", TWO)
    await any_editor.findings("moved.py")
    any_editor.replace("moved.py", "y = 1\n", "y = (\n")
    await any_editor.findings("moved.py")
    any_editor.replace("moved.py", "def first", "import os\n\n\ndef first")
    found = await any_editor.findings("moved.py")
    assert [any_editor.shown("moved.py", d.range) for d in found] == ["checkpoint", "checkpoint"]
    assert lines(found) == [7, 12]


async def test_many_edits_in_one_message_are_all_made(any_editor):
    buffer = any_editor.open("many.py", IMPORT + "".join(f"y{i} = checkpoint(f, x)\n" for i in range(200)))
    places = [m for m in range(len(buffer.text)) if buffer.text.startswith("(f, x)", m)]
    changes, text = [], buffer.text
    for at in reversed(places):
        start, end = any_editor.position(text, at), any_editor.position(text, at + 6)
        changes.append(types.TextDocumentContentChangePartial(types.Range(start, end), "(f, x, use_reentrant=False)"))
        text = text[:at] + "(f, x, use_reentrant=False)" + text[at + 6 :]
    any_editor.change("many.py", changes, text)
    assert await any_editor.findings("many.py") == []


async def test_the_editor_is_answered_while_a_large_file_is_analysed(editor):
    text = IMPORT + "".join(f"def f{i}(x):\n    return checkpoint(g, x, {i})\n\n" for i in range(400))
    editor.open("huge.py", text)
    await asyncio.sleep(0.1)  # it is at work
    stalls = []
    for _ in range(10):
        begun = time.monotonic()
        which = types.TextDocumentIdentifier(editor.uri("never_opened.py"))
        await editor.client.text_document_hover_async(types.HoverParams(which, types.Position(0, 0)))
        stalls.append(time.monotonic() - begun)
    assert sorted(stalls)[5] < 0.5, stalls
    assert len(await editor.findings("huge.py")) == 400
    editor.close("huge.py")
