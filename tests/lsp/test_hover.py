"""Hover: the finding, its fix and its rule's documentation, without a network."""

from lsprotocol import types

RULE = "checkpoint-without-use-reentrant"
TEXT = "from torch.utils.checkpoint import checkpoint\n'𝄞'; y = checkpoint(f, x)\n"


async def hover(editor, name, place):
    which = types.TextDocumentIdentifier(editor.buffers[name].uri)
    return await editor.client.text_document_hover_async(types.HoverParams(which, place))


async def test_hover_on_a_finding_shows_message_fix_and_documentation(any_editor):
    any_editor.open("hover.py", TEXT)
    (found,) = await any_editor.findings("hover.py")
    shown = await hover(any_editor, "hover.py", found.range.start)
    assert shown.contents.kind is types.MarkupKind.Markdown
    assert shown.contents.value.startswith(f"**{RULE}**: {found.message}")
    for part in ("Fix: Pass `use_reentrant=False` (not known to be safe here", "### Why", "### Fix safety"):
        assert part.replace("`", "") in shown.contents.value.replace("`", "")
    assert shown.range == found.range


async def test_hover_elsewhere_shows_nothing(any_editor):
    any_editor.open("elsewhere.py", TEXT)
    await any_editor.findings("elsewhere.py")
    assert await hover(any_editor, "elsewhere.py", types.Position(0, 3)) is None
    assert await hover(any_editor, "elsewhere.py", types.Position(99, 0)) is None


async def test_an_editor_without_markdown_gets_plain_text(connect, tmp_path):
    async with connect(tmp_path, "emacs") as editor:
        editor.open("plain.py", TEXT)
        (found,) = await editor.findings("plain.py")
        shown = await hover(editor, "plain.py", found.range.start)
        formats = editor.client.capabilities.text_document.hover.content_format or []
        wanted = types.MarkupKind.Markdown if types.MarkupKind.Markdown in formats else types.MarkupKind.PlainText
        assert shown.contents.kind is wanted
