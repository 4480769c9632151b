"""What an editor shows, where, and how it gets there."""

import asyncio

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException

RULE = "checkpoint-without-use-reentrant"
IMPORT = "from torch.utils.checkpoint import checkpoint\n"
ONE = IMPORT + "y = checkpoint(f, x)\n"


async def test_a_finding_behind_an_astral_character_is_underlined_where_it_is(any_editor):
    any_editor.open("astral.py", IMPORT + "é = '𝄞𝄞'; y = checkpoint(f, x)\n")
    (found,) = await any_editor.findings("astral.py")
    assert any_editor.shown("astral.py", found.range) == "checkpoint"


async def test_a_finding_says_what_and_why_and_where_to_read_more(any_editor):
    any_editor.open("one.py", ONE)
    (found,) = await any_editor.findings("one.py")
    assert (found.source, found.code) == ("Remat", RULE)
    assert "use_reentrant" in found.message
    assert found.severity is types.DiagnosticSeverity.Warning
    assert found.code_description.href.endswith(f"/docs/rules/{RULE}.md")


async def test_an_edit_behind_a_form_feed_does_not_corrupt_the_text(any_editor):
    any_editor.open("pages.py", f"# page one\f\n\f\n# \x85 and \u2028\n{IMPORT}y = 1\nz = 2\n")
    any_editor.replace("pages.py", "y = 1", "y = checkpoint(f, x)")
    (found,) = await any_editor.findings("pages.py")
    assert any_editor.shown("pages.py", found.range) == "checkpoint"
    any_editor.replace("pages.py", "(f, x)", "(f, x, use_reentrant=False)")
    assert await any_editor.findings("pages.py") == []


async def test_crlf_and_bom_and_tabs_do_not_shift_a_finding(any_editor):
    any_editor.open("dos.py", "\ufeff" + ONE.replace("\n", "\r\n") + "if y:\r\n\tz = checkpoint(g, y)\r\n")
    found = await any_editor.findings("dos.py")
    assert [any_editor.shown("dos.py", d.range) for d in found] == ["checkpoint", "checkpoint"]


async def test_findings_are_pushed_with_the_version_they_speak_of(editor):
    buffer = editor.open("pushed.py", ONE)
    await editor.findings("pushed.py")
    editor.replace("pushed.py", "(f, x)", "(f, x, 1)")
    await editor.findings("pushed.py")
    assert [p.version for p in editor.published if p.uri == buffer.uri] == [1, 2]


async def test_an_editor_that_asks_is_never_pushed_to(pulling):
    pulling.open("asked.py", ONE)
    assert len(await pulling.findings("asked.py")) == 1
    pulling.replace("asked.py", "y = ", "z = ")
    assert len(await pulling.findings("asked.py")) == 1
    await asyncio.sleep(0.2)
    assert pulling.published == []


async def test_an_editor_that_does_not_ask_finds_no_offer_to(editor):
    assert editor.result.capabilities.diagnostic_provider is None


async def test_asking_again_without_a_change_is_answered_with_unchanged(pulling):
    pulling.open("same.py", ONE)
    first = await pulling.pull("same.py")
    again = await pulling.pull("same.py", first.result_id)
    assert isinstance(again, types.RelatedUnchangedDocumentDiagnosticReport)
    pulling.replace("same.py", "y = ", "zz = ")
    assert len((await pulling.pull("same.py", first.result_id)).items) == 1


async def test_asking_about_a_text_that_changes_meanwhile_is_told_to_ask_again(pulling):
    pulling.open("moving.py", ONE)
    await pulling.findings("moving.py")
    pulling.replace("moving.py", "(f, x)", "(f, xx)")
    asked = asyncio.create_task(pulling.pull("moving.py"))
    await asyncio.sleep(0)
    pulling.replace("moving.py", "(f, xx)", "(f, xxx)")
    with pytest.raises(JsonRpcException) as refused:
        await asked
    assert refused.value.code == types.LSPErrorCodes.ServerCancelled
    assert refused.value.data == {"retriggerRequest": True}
    assert len(await pulling.findings("moving.py")) == 1


async def test_a_closed_document_shows_nothing(editor):
    buffer = editor.open("closing.py", ONE)
    assert len(await editor.findings("closing.py")) == 1
    editor.close("closing.py")
    await editor.until(lambda: [p for p in editor.published if p.uri == buffer.uri][-1].diagnostics == [], "none")


async def test_a_document_closed_while_it_is_analysed_shows_nothing(editor):
    text = IMPORT + "".join(f"def f{i}(x):\n    return checkpoint(g, x, {i})\n\n" for i in range(3000))
    buffer = editor.open("large.py", text)
    await asyncio.sleep(0.05)
    editor.close("large.py")
    editor.open("after.py", ONE)
    assert len(await editor.findings("after.py")) == 1
    assert all(p.diagnostics == [] for p in editor.published if p.uri == buffer.uri)


async def test_a_document_opened_again_is_new(editor):
    editor.open("again.py", ONE)
    await editor.findings("again.py")
    editor.close("again.py")
    editor.published.clear()
    editor.open("again.py", "x = 1\n")
    assert await editor.findings("again.py") == []


async def test_an_unsaved_document_has_findings(any_editor):
    any_editor.open("untitled:Untitled-1", ONE)
    assert len(await any_editor.findings("untitled:Untitled-1")) == 1


async def test_a_useless_suppression_is_greyed_out(editor):
    editor.open("useless.py", f"{IMPORT}y = 1  # remat: ignore[{RULE}]\n")
    (found,) = await editor.findings("useless.py")
    assert (found.code, found.severity) == ("unused-suppression", types.DiagnosticSeverity.Hint)
    assert list(found.tags) == [types.DiagnosticTag.Unnecessary]


async def test_an_installed_library_someone_looks_into_has_no_findings(editor):
    editor.open(".venv/lib/python3.11/site-packages/transformers/modeling.py", ONE)
    assert await editor.findings(".venv/lib/python3.11/site-packages/transformers/modeling.py") == []


async def test_notebook_cells_are_left_alone(editor):
    uri = "vscode-notebook-cell:/project/notebook.ipynb#W0sZmlsZQ"
    editor.open(uri, "%pip install torch\n!ls\n" + ONE)
    editor.open("beside.py", ONE)
    assert len(await editor.findings("beside.py")) == 1
    assert [p for p in editor.published if p.uri == uri] == []
    which = types.TextDocumentIdentifier(uri)
    assert await editor.client.text_document_hover_async(types.HoverParams(which, types.Position(3, 6))) is None
    editor.close(uri)


async def test_a_statement_too_large_to_be_code_is_named_in_the_log_and_the_rest_is_checked(connect, tmp_path):
    many = ", ".join(["'checkpoint'"] * 10_000)
    async with connect(tmp_path) as editor:
        editor.open("a.py", f"from torch.utils.checkpoint import checkpoint\nNAMES = [{many}]\ny = checkpoint(f, x)\n")
        assert len(await editor.findings("a.py")) == 1
        editor.replace("a.py", "y =", "z =")
        assert len(await editor.findings("a.py")) == 1
        said = [m.message for m in editor.client.log_messages if "characters is not checked" in m.message]
        assert said == [f"{editor.uri('a.py')}: a statement of more than 100,000 characters is not checked"]
