"""Quick fixes, fix-all and suppression: offered where they hold, applied to what they were made for."""

import pytest
from lsprotocol import types

RULE = "checkpoint-without-use-reentrant"
TITLE = "Pass use_reentrant=False"
HEAD = "from torch.utils.checkpoint import checkpoint\n\n\ndef block(x):\n    return x * 2\n\n\n"
SAFE = HEAD + "y = checkpoint(block, x)\n"
UNSAFE = HEAD + "y = checkpoint(other, x)\n"


async def test_the_quick_fix_gives_the_right_text(any_editor):
    any_editor.open("fix.py", HEAD + "é = '𝄞'; y = checkpoint(block, '𝄞', x); z = '𝄞'\n")
    (found,) = await any_editor.findings("fix.py")
    action = (await any_editor.actions("fix.py", found))[TITLE]
    assert any_editor.applied("fix.py", action) == (
        HEAD + "é = '𝄞'; y = checkpoint(block, '𝄞', x, use_reentrant=False); z = '𝄞'\n"
    )
    assert action.kind == types.CodeActionKind.QuickFix
    assert action.is_preferred
    assert [d.code for d in action.diagnostics] == [RULE]


async def test_the_fixed_text_has_no_finding(any_editor):
    any_editor.open("fixed.py", SAFE)
    (found,) = await any_editor.findings("fixed.py")
    action = (await any_editor.actions("fixed.py", found))[TITLE]
    after = any_editor.applied("fixed.py", action)
    any_editor.change("fixed.py", [types.TextDocumentContentChangeWholeDocument(after)], after)
    assert await any_editor.findings("fixed.py") == []


async def test_a_fix_that_needs_review_says_so_and_is_not_preferred(any_editor):
    any_editor.open("review.py", UNSAFE)
    (found,) = await any_editor.findings("review.py")
    action = (await any_editor.actions("review.py", found))[f"{TITLE} (review)"]
    assert not action.is_preferred


async def test_a_fix_made_for_an_older_text_is_refused(any_editor):
    any_editor.open("stale.py", SAFE)
    (stale,) = await any_editor.findings("stale.py")
    any_editor.replace("stale.py", "y = checkpoint", "yyyyyyy = checkpoint")
    assert await any_editor.actions("stale.py", stale) == {}
    (fresh,) = await any_editor.findings("stale.py")
    action = (await any_editor.actions("stale.py", fresh))[TITLE]
    assert "yyyyyyy = checkpoint(block, x, use_reentrant=False)" in any_editor.applied("stale.py", action)


@pytest.mark.parametrize(
    "data",
    [
        None,
        "fix",
        {"version": 1, "fix": {"title": "t", "safe": True, "edits": [[0, 99999, "x"]]}},
        {"version": 1, "fix": {"title": "t", "safe": True, "edits": [["0", None]]}},
        {"version": 1, "fix": {"title": "t", "safe": True, "edits": []}},
        {"version": 1, "fix": {"edits": [[0, 1, "x"]]}},
        {"version": "1", "fix": 3},
    ],
)
async def test_data_that_is_damaged_makes_no_fix(editor, data):
    editor.open("damaged.py", SAFE)
    (found,) = await editor.findings("damaged.py")
    found.data = data
    offered = await editor.actions("damaged.py", found)
    assert "t" not in offered
    editor.close("damaged.py")


async def test_an_editor_that_keeps_no_data_gets_the_fix_of_the_present_text(any_editor):
    any_editor.open("forgetful.py", SAFE)
    (found,) = await any_editor.findings("forgetful.py")
    assert TITLE in await any_editor.actions("forgetful.py", place=found.range)
    found.data = None
    assert TITLE in await any_editor.actions("forgetful.py", found)


async def test_nothing_is_offered_beside_a_finding(any_editor):
    any_editor.open("beside.py", SAFE)
    await any_editor.findings("beside.py")
    assert await any_editor.actions("beside.py") == {}


async def test_other_tools_findings_are_left_alone(any_editor):
    any_editor.open("others.py", SAFE)
    (found,) = await any_editor.findings("others.py")
    found.source = "Ruff"
    found.range = types.Range(types.Position(0, 0), types.Position(0, 4))
    assert await any_editor.actions("others.py", found) == {}


async def test_suppressing_adds_the_comment_and_silences_that_line_only(any_editor):
    any_editor.open("quiet.py", HEAD + "y = checkpoint(block, x)  # keep\nz = checkpoint(block, y)\n")
    first, _ = await any_editor.findings("quiet.py")
    action = (await any_editor.actions("quiet.py", first))[f"Suppress {RULE} here"]
    after = any_editor.applied("quiet.py", action)
    assert f"y = checkpoint(block, x)  # keep  # remat: ignore[{RULE}]\n" in after
    any_editor.change("quiet.py", [types.TextDocumentContentChangeWholeDocument(after)], after)
    assert [d.range.start.line for d in await any_editor.findings("quiet.py")] == [8]


async def test_no_suppression_is_offered_where_its_comment_would_be_text(editor):
    editor.open("string.py", HEAD + 'y = checkpoint(block, """\n""")\n')
    (found,) = await editor.findings("string.py")
    for title, action in (await editor.actions("string.py", found)).items():
        if title.startswith("Suppress"):
            after = editor.applied("string.py", action)
            assert 'checkpoint(block, """\n""")' in after


async def test_a_useless_suppression_is_taken_away_and_not_suppressed(editor):
    editor.open("useless.py", HEAD + f"y = 1  # remat: ignore[{RULE}]\n")
    (found,) = await editor.findings("useless.py")
    offered = await editor.actions("useless.py", found)
    assert list(offered) == ["Remove the unused suppression"]
    assert editor.applied("useless.py", offered["Remove the unused suppression"]) == HEAD + "y = 1\n"


MANY = (
    HEAD + "a = checkpoint(block, x)\nb = checkpoint(other, x)\nc = checkpoint(block, x)\nd = 1  # remat: ignore[x]\n"
)


async def test_fix_all_of_a_rule_makes_its_safe_fixes(any_editor):
    any_editor.open("rule.py", MANY)
    found = await any_editor.findings("rule.py")
    action = (await any_editor.actions("rule.py", found[0]))[f"Fix all {RULE} in this file"]
    after = any_editor.applied("rule.py", action)
    assert after == MANY.replace("(block, x)", "(block, x, use_reentrant=False)")


async def test_fix_all_safe_problems_makes_those_of_all_rules(any_editor):
    any_editor.open("all.py", MANY)
    await any_editor.findings("all.py")
    for only in (["source.fixAll.remat"], ["source.fixAll"], ["source"]):
        (action,) = (await any_editor.actions("all.py", only=only)).values()
        assert (action.title, action.kind) == ("Fix all safe problems", "source.fixAll.remat")
        after = any_editor.applied("all.py", action)
        assert after == MANY.replace("(block, x)", "(block, x, use_reentrant=False)").replace(
            "  # remat: ignore[x]", ""
        )


async def test_fix_all_is_not_offered_where_nothing_is_safe(any_editor):
    any_editor.open("none.py", UNSAFE)
    await any_editor.findings("none.py")
    assert await any_editor.actions("none.py", only=["source.fixAll"]) == {}


async def test_only_the_kinds_asked_for_are_offered(any_editor):
    any_editor.open("kinds.py", MANY)
    found = await any_editor.findings("kinds.py")
    assert await any_editor.actions("kinds.py", found[0], only=["refactor"]) == {}
    offered = await any_editor.actions("kinds.py", found[0], only=["quickfix"])
    assert {a.kind for a in offered.values()} == {"quickfix"}


async def test_the_server_names_its_kinds(editor):
    assert list(editor.result.capabilities.code_action_provider.code_action_kinds) == [
        "quickfix",
        "source.fixAll.remat",
    ]
