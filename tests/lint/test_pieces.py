"""A file in pieces says what the file as a whole says, also after edits, and while a statement is half-typed."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remat.lint.check import Analysis, analyse, check, interest
from remat.lint.code.names import UNKNOWN, environment
from remat.lint.code.parsed import parse
from remat.lint.code.source import Source
from remat.lint.code.split import LONG_CLASS, Piece, Role, cut, split
from remat.lint.rule import Bad, Context, unmark
from remat.lint.rules import RULES

if TYPE_CHECKING:
    from remat.finding import Finding

ROOT = Path(__file__).parents[2]
METHOD = '''
    @staticmethod
    def method_{n}(block, x, mask=None):
        """Not code: def checkpoint(block, x): ( [ {{"""
        text = "it's # no comment"  # isn't
        if mask is not None:
            for i, layer in enumerate(block):
                x = run(lambda h: layer(h, mask), x)
        return checkpoint(block, x)  # {n}
'''
LONG = (
    '''# A long class is cut into its members.
import functools
from torch.utils.checkpoint import checkpoint, checkpoint_sequential as in_order
from torch.utils import checkpoint as module

run = functools.partial(checkpoint, use_reentrant=False)

@decorated(
    "over", several=lines
)
class Stack(Base):
    """Docstring with a quote: \\""" and a bracket (."""

    kept: int = 0
'''
    + "".join(METHOD.format(n=n) for n in range(8))
    + r'''
    again = module.checkpoint

    def last(self, x):
        return self.again(self, x) + Stack.again(self, x)


if True:
    y = in_order(layers, 2, x)
else:
    y = checkpoint(block, x, \
        use_reentrant=True)

try:
    z = checkpoint(a, \
b)
except TypeError:
    z = checkpoint(a, b)
finally:
    z = f"""
def not_code(): {checkpoint(a, b)}
"""


async def load(q):
    async with q as w:
        return [checkpoint(lambda t: t * r, w) for r in q]
'''
)
EXAMPLES = [unmark(e.code)[0] for rule in RULES for e in rule.examples]
OWN = sorted((ROOT / "server" / "remat" / "lint").rglob("*.py")) + sorted((ROOT / "examples").glob("*.py"))
SAMPLES = [LONG, *EXAMPLES]


def run_rules(source: Source) -> list[Finding]:
    found = [f for rule in RULES for f in rule.check(source, Context())]
    return sorted(found, key=lambda f: (f.span.start, f.span.end, f.rule))


def with_classes_cut(text: str, longer_than: int, monkeypatch: pytest.MonkeyPatch) -> list[Finding]:
    with monkeypatch.context() as patch:
        patch.setattr("remat.lint.code.split.LONG_CLASS", longer_than)
        return run_rules(Source(text))


def partition(text: str, pieces: list[Piece]) -> None:
    assert "".join(text[p.start : p.end] for p in pieces) == text
    assert all(p.start < p.end for p in pieces) or not text


TOKENS = """\n|\r\n|\r|    |\t|\f|"|'|\"""|'''|\\|\\\n|(|)|[|]|{|}|#|@|:|class A:|def f():|x = 1|pass|else:|import a|;
|\ufeff|é|return|\U0001f600|checkpoint(a, b)|lambda: 0|,|r"|f"{|async|with a:|# remat: ignore["""
code_like = st.lists(st.sampled_from(TOKENS.split("|")), max_size=60).map("".join)


@given(st.one_of(code_like, st.text(max_size=200)))
@settings(max_examples=400, deadline=None, derandomize=True)
def test_pieces_partition_any_text(text: str) -> None:
    partition(text, split(text))


@given(code_like, code_like)
@settings(max_examples=400, deadline=None, derandomize=True)
def test_pieces_partition_any_text_after_any_other(old: str, new: str) -> None:
    partition(new, cut(new, cut(old)).pieces)


@pytest.mark.parametrize("path", OWN, ids=lambda p: p.name)
def test_every_piece_of_a_file_that_parses_parses(path: Path) -> None:
    text = path.read_text()
    pieces = split(text)
    partition(text, pieces)
    assert [text[p.start : p.end] for p in pieces if parse((text[p.start : p.end], p.role)) is None] == []


def test_every_piece_of_the_samples_parses_and_the_long_class_is_cut() -> None:
    for text in SAMPLES:
        assert all(parse((text[p.start : p.end], p.role)) for p in split(text))
    roles = [p.role for p in split(LONG)]
    assert (roles.count(Role.CLASS), roles.count(Role.MEMBER)) == (1, 11)
    assert len(LONG) > LONG_CLASS


@pytest.mark.slow
def test_every_piece_of_the_standard_library_parses() -> None:
    broken = []
    for path in sorted(Path(ast.__file__).parent.rglob("*.py")):
        text = path.read_text(errors="replace")
        if "/test/" in str(path) or "lib2to3" in str(path) or "site-packages" in str(path) or not text.isascii():
            continue
        broken += [
            (path, p) for p in split(text) if "\f" not in text and parse((text[p.start : p.end], p.role)) is None
        ]
    assert broken == []


@pytest.mark.parametrize("text", SAMPLES)
def test_a_class_cut_into_members_has_the_findings_of_the_whole_class(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert with_classes_cut(text, 0, monkeypatch) == with_classes_cut(text, sys.maxsize, monkeypatch)


def calls_of(source: Source) -> set[tuple[str, int, int]]:
    return {
        (name, span.start, span.end)
        for place in source.places
        for name, calls in place.parsed.by_name(source.module, place.names).items()
        for node, _, _ in calls
        if name != UNKNOWN and (span := source.span(place, node))
    }


@pytest.mark.parametrize("text", [LONG, *(p.read_text() for p in OWN[::4])], ids=lambda t: t[:30])
def test_every_call_has_the_name_and_place_that_the_whole_file_gives_it(text: str) -> None:
    whole = parse((text, Role.STATEMENT))
    assert whole is not None
    module = environment([whole.names], {})
    expected = {
        (name, *whole.spans[id(node)])
        for name, calls in whole.by_name(module, {}).items()
        for node, _, _ in calls
        if id(node) in whole.spans and name != UNKNOWN
    }
    assert calls_of(Source(text)) == expected


@pytest.mark.parametrize("text", [*SAMPLES, *(p.read_text() for p in OWN)], ids=lambda t: t[:30])
def test_looking_only_at_pieces_with_trigger_words_loses_nothing(text: str) -> None:
    assert run_rules(Source(text, interest())) == run_rules(Source(text))


def parses(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    return True


SNIPPETS = [
    "", "\n", "    ", "x", '"', "'''", "(", ")", "# ", "checkpoint(a, b)\n", "use_reentrant=True", "\nckpt(a, b)\n",
    "\ndef f(a):\n    return a\n", "\nfrom torch.utils.checkpoint import checkpoint as ckpt\n", ", ", "lambda: 0",
    "\nclass B:\n    c = 1\n", "for layer in layers:\n", "import torch\n", "\n\n", "\r\n", "else:\n",
    "    return checkpoint(a, b)\n",
]  # fmt: skip
edits = st.lists(
    st.tuples(st.floats(0, 1), st.sampled_from([0, 0, 0, 1, 1, 5, 40]), st.sampled_from(SNIPPETS)),
    min_size=1,
    max_size=6,
)


def edited(text: str, at: float, drop: int, put: str) -> str:
    """One edit, moved to a line's start in half of the cases so that the text often parses again."""
    start = int(at * len(text))
    if put.endswith("\n") or start % 2:
        start = text.rfind("\n", 0, start) + 1
    return text[:start] + put + text[start + drop :]


def edit_and_compare(text: str, steps: list[tuple[float, int, str]]) -> None:
    analysis = analyse(text)
    for at, drop, put in steps:
        text = edited(text, at, drop, put)
        analysis = analyse(text, before=analysis)
        assert analysis is not None
        if parses(text):
            assert list(analysis.findings) == check(text)


@given(st.sampled_from(SAMPLES), edits)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_whenever_the_text_parses_an_edit_finds_what_a_fresh_look_finds(text: str, steps: list) -> None:
    edit_and_compare(text, steps)


@pytest.mark.slow
@given(st.sampled_from(SAMPLES), edits)
@settings(max_examples=3000, deadline=None)
def test_whenever_the_text_parses_many_edits_find_what_a_fresh_look_finds(text: str, steps: list) -> None:
    edit_and_compare(text, steps)


def test_an_edit_that_is_taken_back_finds_the_same_again() -> None:
    first = analyse(LONG)
    broken = analyse(LONG.replace("kept: int", 'kept: """int'), before=first)
    assert first is not None
    again = analyse(LONG, before=broken)
    assert again is not None
    assert again.findings == first.findings


HALF_TYPED = [
    "checkpoint(", "y = checkpoint(block, ", "y = ", 'print("', "'''", '"""', "[", "{1: ", "def f(", "class K", "if x",
    "for z in", "y.", "import", "@", "lambda", "y = lambda:", "with a as", "return other(a, b", "f'{", "elif x:",
]  # fmt: skip


def places(text: str) -> list[int]:
    """Starts of lines at which a statement may begin: not inside a string or a bracket."""
    starts = {0, len(text)}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.stmt):
            starts.add(sum(len(line) for line in text.splitlines(keepends=True)[: node.lineno - 1]))
    return sorted(starts)


def typed(text: str, at: int, half: str) -> str:
    indent = re.compile(r"[ \t]*").match(text, at)
    return f"{text[:at]}{indent[0] if indent else ''}{half}\n{text[at:]}"


def where(analysis: Analysis | None) -> list[tuple[str, int, int]]:
    assert analysis is not None
    return [(f.rule, f.span.start, f.span.end) for f in analysis.findings]


@pytest.mark.parametrize("half", HALF_TYPED)
def test_a_half_typed_statement_leaves_every_finding_where_it_was(half: str) -> None:
    before = analyse(LONG)
    base = where(before)
    assert len(base) > 10
    for at in places(LONG)[::4]:
        text = typed(LONG, at, half)
        if parses(text):
            continue
        by = len(text) - len(LONG)
        moved = [(r, s + by * (s >= at), e + by * (s >= at)) for r, s, e in base]
        assert where(analyse(text, before=before)) == moved, (at, LONG[at : at + 40])


@pytest.mark.parametrize("half", ["y = checkpoint(block, ", "'''", "def f("])
def test_a_finding_that_is_kept_offers_no_fix_and_the_others_still_do(half: str) -> None:
    before = analyse(LONG)
    assert before is not None
    at = LONG.index("        return checkpoint(block, x)  # 3")
    after = analyse(typed(LONG, at, half), before=before)
    assert after is not None
    member = (LONG.index("def method_3"), LONG.index("    @staticmethod\n    def method_4"))
    with_fix = [f.fix is not None for f in before.findings]
    kept = [f.fix is not None for f in after.findings]
    inside = [member[0] <= f.span.start < member[1] for f in before.findings]
    assert any(inside)
    assert kept == [fix and not at_edit for fix, at_edit in zip(with_fix, inside, strict=True)]


def test_a_call_typed_character_by_character_disturbs_nothing_and_is_found_when_it_is_whole() -> None:
    analysis = analyse(LONG)
    base = where(analysis)
    at = LONG.index("\n\nif True:")
    line = "\nnew = checkpoint(block, x)"
    for n in range(1, len(line) + 1):
        text = LONG[:at] + line[:n] + LONG[at:]
        analysis = analyse(text, before=analysis)
        others = [f for f in where(analysis) if not at <= f[1] < at + n]
        assert others == [(r, s + n * (s >= at), e + n * (s >= at)) for r, s, e in base]
    assert len(where(analysis)) == len(base) + 1


def test_a_file_that_never_parsed_has_the_findings_of_its_good_pieces() -> None:
    text = LONG.replace("    kept: int = 0", "    kept: int = (")
    assert 0 < len(check(text)) <= len(check(LONG))


def test_an_analysis_that_a_newer_text_has_overtaken_is_abandoned() -> None:
    assert analyse(LONG, is_current=lambda: False) is None
    calls = iter([True] * 3 + [False] * sys.maxsize.bit_length() * 100)
    assert analyse(LONG, is_current=lambda: next(calls)) is None


def test_marked_examples_are_samples_of_bad_code() -> None:
    assert sum(isinstance(e, Bad) for rule in RULES for e in rule.examples) > 5
