"""A comment silences the rules it names on its line, and says so when it silences nothing."""

from __future__ import annotations

import pytest

from remat.finding import Finding, Severity, apply_edits
from remat.lint.check import check
from remat.lint.rule import Context
from remat.lint.suppress import suppress_edit
from remat.settings import Settings

RULE = "checkpoint-without-use-reentrant"
OTHER = "checkpoint-with-reentrant-true"
IMPORT = "from torch.utils.checkpoint import checkpoint\n"


def rules(text: str, context: Context | None = None) -> list[str]:
    return [f.rule for f in check(IMPORT + text, context)]


def unused(text: str) -> Finding:
    (finding,) = (f for f in check(IMPORT + text) if f.rule == "unused-suppression")
    assert finding.severity is Severity.HINT
    return finding


def without_it(text: str) -> str:
    fix = unused(text).fix
    assert fix is not None
    assert fix.safe
    after = fix.apply(IMPORT + text)
    assert [f for f in check(after) if f.rule == "unused-suppression"] == []
    return after.removeprefix(IMPORT)


@pytest.mark.parametrize(
    "text",
    [
        f"y = checkpoint(f, x)  # remat: ignore[{RULE}]\n",
        f"y = checkpoint(f, x)  #remat:ignore[{RULE}]\n",
        f"y = checkpoint(f, x)  # remat: ignore[ {RULE} ]",
        f"y = checkpoint(f, x)  # noqa: X # remat: ignore[{RULE}] because\n",
        f"# remat: ignore[{RULE}]\ny = checkpoint(f, x)\n",
        f"# remat: ignore[{RULE}]\n\n# about y\ny = checkpoint(f, x)\n",
        f"if a:\n    # remat: ignore[{RULE}]\n    y = checkpoint(f, x)\n",
        f"y = checkpoint(  # remat: ignore[{RULE}]\n    f,\n    x,\n)\n",
        f"y = [\n    1,\n    # remat: ignore[{RULE}]\n    checkpoint(f, x),\n]\n",
        f"y = checkpoint(f, x)  # remat: ignore[{RULE}]\r\n",
    ],
)
def test_a_comment_on_the_line_or_alone_above_it_silences_the_rule(text: str) -> None:
    assert rules(text) == []


def test_several_names_silence_several_rules() -> None:
    line = "y = checkpoint(f, x); z = checkpoint(f, x, use_reentrant=True)"
    assert sorted(rules(line)) == [OTHER, RULE]
    assert rules(f"{line}  # remat: ignore[{RULE}, {OTHER}]") == []
    assert rules(f"{line}  # remat: ignore[{RULE}]") == [OTHER]


def test_another_line_is_not_silenced() -> None:
    assert rules(f"y = checkpoint(f, x)  # remat: ignore[{RULE}]\nz = checkpoint(f, x)\n") == [RULE]


@pytest.mark.parametrize(
    "string",
    [
        f'"# remat: ignore[{RULE}]"',
        f'"""\n# remat: ignore[{RULE}]"""',
        f'r"\\" + """ # remat: ignore[{RULE}] """',
    ],
)
def test_the_words_in_a_string_silence_nothing_and_are_no_comment(string: str) -> None:
    string = string.replace('r"\\"', '"\\\\"')
    assert rules(f"y = checkpoint(f, {string})\n") == [RULE]


def test_a_comment_that_silences_nothing_is_reported_with_its_removal() -> None:
    assert "nothing to suppress" in unused(f"y = 1  # remat: ignore[{RULE}]\n").message
    assert without_it(f"y = 1  # remat: ignore[{RULE}]\nz = 2\n") == "y = 1\nz = 2\n"
    assert without_it(f"y = 1  # remat: ignore[{RULE}]") == "y = 1"
    assert without_it(f"y = 1\t# remat: ignore[{RULE}]\r\nz = 2\r\n") == "y = 1\r\nz = 2\r\n"


def test_a_comment_that_stands_alone_is_removed_with_its_line() -> None:
    assert without_it(f"a = 1\n    # remat: ignore[{RULE}]\ny = 1\n") == "a = 1\ny = 1\n"
    assert without_it(f"a = 1\r\n# remat: ignore[{RULE}]\r\ny = 1\r\n") == "a = 1\r\ny = 1\r\n"


def test_the_other_words_of_a_comment_stay() -> None:
    assert without_it(f"y = 1  # remat: ignore[{RULE}] and why\n") == "y = 1  # and why\n"
    assert without_it(f"y = 1  # noqa: X # remat: ignore[{RULE}]\n") == "y = 1  # noqa: X\n"


def test_only_the_name_that_silences_nothing_is_removed() -> None:
    text = f"y = checkpoint(f, x)  # remat: ignore[{OTHER}, {RULE}]\n"
    assert without_it(text) == f"y = checkpoint(f, x)  # remat: ignore[{RULE}]\n"


def test_an_unknown_name_is_reported_with_the_one_that_was_meant() -> None:
    message = unused("y = 1  # remat: ignore[checkpoint-without-reentrant]\n").message
    assert message == f"there is no rule `checkpoint-without-reentrant`; did you mean `{RULE}`?"
    assert unused("y = 1  # remat: ignore[xyz]\n").message == "there is no rule `xyz`"


def test_a_comment_without_a_name_is_explained_and_kept() -> None:
    for text in ("y = checkpoint(f, x)  # remat: ignore\n", "y = checkpoint(f, x)  # remat: ignore[]\n"):
        assert rules(text) == [RULE, "unused-suppression"]
        assert "names no rule" in unused(text).message
        assert unused(text).fix is None


def test_a_rule_that_is_switched_off_leaves_its_suppressions_alone() -> None:
    off = Context(settings=Settings(ignore=frozenset({RULE})))
    assert rules(f"y = checkpoint(f, x)  # remat: ignore[{RULE}]\n", off) == []


@pytest.mark.parametrize(
    "text",
    [
        "y = checkpoint(\n    f,\n    x,\n)  # remat: ignore[{rule}]\n",
        "y = checkpoint(\n    f, g(x, ')'),  # )\n    x)  # remat: ignore[{rule}]\n",
        "y = g(1, checkpoint(f,\n    x),  # remat: ignore[{rule}]\n    2)\n",
    ],
)
def test_a_comment_behind_a_call_over_several_lines_speaks_of_the_call(text: str) -> None:
    assert rules(text.format(rule=RULE)) == []


def test_a_comment_behind_another_call_of_the_statement_does_not() -> None:
    text = f"y = g(\n    checkpoint(f, x),\n    2,\n)  # remat: ignore[{RULE}]\n"
    assert rules(text) == [RULE, "unused-suppression"]
    text = f"y = checkpoint(\n    f,\n    checkpoint(g, x),  # remat: ignore[{RULE}]\n)\n"
    assert rules(text) == [RULE]


def test_the_report_of_unused_comments_can_be_silenced_itself() -> None:
    quiet = Context(settings=Settings(ignore=frozenset({"unused-suppression"})))
    assert rules(f"y = 1  # remat: ignore[{RULE}]\n", quiet) == []


def silenced(text: str) -> str:
    """The text after the editor's "suppress here" on its first finding."""
    text = IMPORT + text
    finding = check(text)[0]
    edit = suppress_edit(text, finding)
    assert edit is not None
    after = apply_edits(text, (edit,))
    compile(after, "silenced.py", "exec")
    assert finding.rule not in [f.rule for f in check(after) if abs(f.span.start - finding.span.start) < 5]
    assert "unused-suppression" not in [f.rule for f in check(after)]
    return after.removeprefix(IMPORT)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("y = checkpoint(f, x)\n", f"y = checkpoint(f, x)  # remat: ignore[{RULE}]\n"),
        ("y = checkpoint(f, x)", f"y = checkpoint(f, x)  # remat: ignore[{RULE}]"),
        ("y = checkpoint(f, x)\r\nz = 1\r\n", f"y = checkpoint(f, x)  # remat: ignore[{RULE}]\r\nz = 1\r\n"),
        ("y = checkpoint(  # big\n    f, x)\n", f"y = checkpoint(  # big  # remat: ignore[{RULE}]\n    f, x)\n"),
        (
            f"y = checkpoint(f, x, use_reentrant=True); z = checkpoint(f, x)  # remat: ignore[{RULE}]\n",
            f"y = checkpoint(f, x, use_reentrant=True); z = checkpoint(f, x)  # remat: ignore[{RULE}, {OTHER}]\n",
        ),
    ],
)  # fmt: skip
def test_suppress_here_silences_the_finding_and_keeps_the_program(before: str, after: str) -> None:
    assert silenced(before) == after


def test_suppress_here_works_in_a_file_of_carriage_returns() -> None:
    text = "from torch.utils.checkpoint import checkpoint\ry = checkpoint(f, x)\rz = 1\r"
    (finding,) = check(text)
    edit = suppress_edit(text, finding)
    assert edit is not None
    assert apply_edits(text, (edit,)) == text.replace("x)\r", f"x)  # remat: ignore[{RULE}]\r")
    assert check(apply_edits(text, (edit,))) == []


def test_suppress_here_stands_above_a_line_that_ends_in_a_string_or_a_continuation() -> None:
    comment = f"# remat: ignore[{RULE}]"
    for text in (
        'y = checkpoint(f, """\n""")\n',
        "y = checkpoint(f, x), '''a\nb'''\n",
        "y = checkpoint(f, x) + \\\n    1\n",
    ):
        assert silenced(text) == f"{comment}\n{text}"
        assert silenced(f"if a:\n    {text}") == f"if a:\n    {comment}\n    {text}"
        windows = text.replace("\n", "\r\n")
        assert silenced(windows) == f"{comment}\r\n{windows}"


@pytest.mark.parametrize(
    "text",
    [
        'y = """\n""" + checkpoint(f, """\n""")\n',
        "y = 1 + \\\n    checkpoint(f, x) + \\\n    2\n",
    ],
)
def test_suppress_here_is_not_offered_where_no_comment_can_stand(text: str) -> None:
    (finding,) = check(IMPORT + text)
    assert suppress_edit(IMPORT + text, finding) is None


def test_a_suppression_in_a_statement_that_does_not_parse_is_not_called_unused() -> None:
    line = "y = (checkpoint(f, x)  # remat: ignore[checkpoint-without-use-reentrant]\n"
    assert check("from torch.utils.checkpoint import checkpoint\n" + line) == []
