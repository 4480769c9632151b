"""An argument added to a call leaves everything else as the user wrote it."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remat.finding import apply_edits
from remat.lint.code.source import Source
from remat.lint.edits import add_argument, indent_at, newline_of

NEW = "use_reentrant=False"


def with_argument(text: str) -> str:
    source = Source("from torch.utils.checkpoint import checkpoint\n" + text)
    (call,) = source.calls("torch.utils.checkpoint.checkpoint")
    edits = add_argument(source, call, NEW)
    assert edits
    return apply_edits(source.text, edits).split("\n", 1)[1]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("checkpoint()", "checkpoint(use_reentrant=False)"),
        ("checkpoint( )", "checkpoint( use_reentrant=False)"),
        ("checkpoint(f, x)", "checkpoint(f, x, use_reentrant=False)"),
        ("checkpoint(f, x,)", "checkpoint(f, x, use_reentrant=False)"),
        ("checkpoint(f, x, )", "checkpoint(f, x, use_reentrant=False)"),
        ("checkpoint(f, *args)", "checkpoint(f, *args, use_reentrant=False)"),
        ("checkpoint(f, (x))", "checkpoint(f, (x), use_reentrant=False)"),
        ("checkpoint(f, (x, y))", "checkpoint(f, (x, y), use_reentrant=False)"),
        ("checkpoint(f, x)(y)", "checkpoint(f, x, use_reentrant=False)(y)"),
        ("(checkpoint)(f, x)", "(checkpoint)(f, x, use_reentrant=False)"),
        ("checkpoint(f, lambda a, b: (a, b))", "checkpoint(f, lambda a, b: (a, b), use_reentrant=False)"),
        ("checkpoint(y for y in z)", "checkpoint((y for y in z), use_reentrant=False)"),
        ("checkpoint((y for y in z))", "checkpoint((y for y in z), use_reentrant=False)"),
        ("checkpoint(f, ')')", "checkpoint(f, ')', use_reentrant=False)"),
        ("checkpoint(\n    f\n    ,)", "checkpoint(\n    f\n    , use_reentrant=False)"),
        ("checkpoint(f, x # of (b, t), half\n)", "checkpoint(f, x, use_reentrant=False # of (b, t), half\n)"),
        ("checkpoint(\n    f,\n    x\n)", "checkpoint(\n    f,\n    x,\n    use_reentrant=False\n)"),
        ("checkpoint(\n    f,\n    x,\n)", "checkpoint(\n    f,\n    x,\n    use_reentrant=False,\n)"),
        ("checkpoint(\n    f,\n    x)", "checkpoint(\n    f,\n    x, use_reentrant=False)"),
        ("checkpoint(f,\n           x)", "checkpoint(f,\n           x, use_reentrant=False)"),
        (
            "checkpoint(\n\tf,\n\tx,  # last, really\n)",
            "checkpoint(\n\tf,\n\tx,  # last, really\n\tuse_reentrant=False,\n)",
        ),
        (
            "checkpoint(\r\n    f,\r\n    x  # last\r\n)",
            "checkpoint(\r\n    f,\r\n    x,  # last\r\n    use_reentrant=False\r\n)",
        ),
        (
            "checkpoint(\n    f,\n    x,\n    # one more?\n)",
            "checkpoint(\n    f,\n    x,\n    use_reentrant=False,\n    # one more?\n)",
        ),
        (
            "checkpoint(\n    f, x,\n    y, z,\n)",
            "checkpoint(\n    f, x,\n    y, z, use_reentrant=False,\n)",
        ),
        ("y = checkpoint(f, 'é\U0001f600', x)", "y = checkpoint(f, 'é\U0001f600', x, use_reentrant=False)"),
    ],
)
def test_the_argument_is_laid_out_as_the_others_are(before: str, after: str) -> None:
    assert with_argument(before) == after


ARGUMENTS = st.sampled_from(
    [
        "f",
        "(x)",
        "((x))",
        "lambda h: (h, 1)",
        "x[0, 1]",
        "(a, b)",
        "'a, b)'",
        "[i for i in z]",
        "g(h, k=1)",
        "(\n    y\n)",
    ]
)
SPACE = st.sampled_from(
    ["", " ", "\n", "\n    ", "  # note, (\n    ", "\n    # own line, )\n    ", "\r\n\t", " \\\n  "]
)


@st.composite
def calls(draw: st.DrawFn) -> str:
    """A call in any layout, with positional, starred and keyword arguments."""
    args = draw(st.lists(ARGUMENTS, max_size=3))
    args += draw(st.sampled_from([[], ["*rest"], ["*(a, b)"], ["*rest", "x"]]))
    args += draw(st.sampled_from([[], ["key=(1)"], ["key=1", "other = 'a'"]]))
    text = "checkpoint(" + draw(SPACE)
    for n, arg in enumerate(args):
        last = n == len(args) - 1
        text += arg + draw(SPACE)
        text += draw(st.sampled_from(["", ","])) + draw(SPACE) if last else "," + draw(SPACE)
    if not args and "\\" in text:
        text = "checkpoint("
    return text + ")" + draw(st.sampled_from(["", "\n", "  # after, (\n", ".sum()\n", "[0](x)\n"]))


def parsed_call(text: str) -> ast.Call:
    node = next(
        n
        for n in ast.walk(ast.parse(text))
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == "checkpoint"
    )
    assert isinstance(node, ast.Call)
    return node


def keeps_the_rest(text: str) -> None:
    try:
        before = parsed_call(text)
    except SyntaxError:
        return  # a comment that swallowed the rest of a line
    result = with_argument(text)
    after = parsed_call(result)
    added = after.keywords.pop()
    assert (added.arg, ast.unparse(added.value)) == ("use_reentrant", "False")
    assert ast.dump(after) == ast.dump(before)
    for comment in ("# note, (", "# own line, )", "# after, ("):
        assert result.count(comment) == text.count(comment)
    assert [line for line in text.split("\n") if line.endswith("\r")] == [] or "\r\n" in result


@given(calls())
@settings(max_examples=250, deadline=None, derandomize=True)
def test_in_any_layout_the_call_gains_the_keyword_and_nothing_else_changes(text: str) -> None:
    keeps_the_rest(text)


@pytest.mark.slow
@given(calls())
@settings(max_examples=10_000, deadline=None)
def test_in_very_many_layouts_the_call_gains_the_keyword_and_nothing_else_changes(text: str) -> None:
    keeps_the_rest(text)


def test_an_edit_inside_a_class_member_lands_in_that_member() -> None:
    filler = "".join(f"    def f{n}(self):\n        return 'é' * {n}\n\n" for n in range(60))
    text = f"class A:\n{filler}    def forward(self, y):\n        return checkpoint(f, x)\n"
    assert with_argument(text) == text.replace("f, x)", f"f, x, {NEW})")


def test_white_space_is_read_from_the_line_around() -> None:
    text = "a\n\t  b\r\nc"
    assert indent_at(text, text.index("b")) == "\t  "
    assert indent_at(text, 0) == ""
    assert newline_of(text, text.index("b")) == "\r\n"
    assert newline_of(text, 0) == "\n"
    assert newline_of(text, text.index("c")) == "\n"
