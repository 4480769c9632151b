"""Whatever text comes, an answer comes, soon, and the same one each time."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remat.lint.check import Analysis, analyse, check
from remat.lint.rule import Context, unmark
from remat.lint.rules import RULES
from remat.versions import Versions

ROOT = Path(__file__).parents[2]
REAL = [p.read_text() for p in sorted((ROOT / "examples").glob("*.py"))]
EXAMPLES = [unmark(example.code)[0] for rule in RULES for example in rule.examples]
IMPORT = "from torch.utils.checkpoint import checkpoint\n"
CALL = "y = checkpoint(f, x)\n"
CONTEXTS = [Context(), Context(versions=Versions.parse("torch=2.14.1,transformers=5.24.0"))]


def looked_at(text: str, context: Context | None = None) -> None:
    """Check a text that holds every trigger word; spans and fixes must lie inside it."""
    for finding in check(text, context):
        assert 0 <= finding.span.start < finding.span.end <= len(text)
        for edit in finding.fix.edits if finding.fix else ():
            assert 0 <= edit.span.start <= edit.span.end <= len(text)


TOKENS = r"""\n \r\n \r \f \x00 \t " ' \""" ''' \\ \\\n ( ) [ ] { } # @ : = * ** . , ; -> \ufeff \xe9 \U0001f600
\ud800 r" f"{ := class~A(B): def~f(x): for~layer~in~self.layers: if~x: else: try: except~TypeError: return from
with~torch.no_grad(): lambda~h:~layer(h) checkpoint checkpoint(f,~x) checkpoint_sequential(fs,~2,~x) match~x:
use_reentrant=True use_reentrant=False functools.partial(checkpoint) import~torch as~ckpt x~= self.x~= async~
from~torch.utils.checkpoint~import~checkpoint\n await~ yield global~x nonlocal~x #~remat:~ignore[ use_cache=False
checkpoint-without-use-reentrant] Trainer( model.gradient_checkpointing_enable()\n case~{"a":~b,~**c}: del~x x:~int
[a~for~a~in~b] apply_activation_checkpointing( model~=~AutoModelForCausalLM.from_pretrained(a)\n""".split()
TOKENS = [t.replace("~", " ").encode().decode("unicode-escape") for t in TOKENS]
words = st.lists(st.sampled_from(TOKENS), max_size=40).map(" ".join)
hostile = st.one_of(words, st.text(max_size=300), st.binary(max_size=200).map(lambda b: b.decode("latin-1")))


@given(hostile, st.sampled_from(CONTEXTS))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_check_never_raises_on_any_text(text: str, context: Context) -> None:
    looked_at(IMPORT + text, context)


def mutated(text: str, seed: int) -> str:
    """Real code with a few pieces deleted, doubled, swapped or replaced."""
    rng = random.Random(seed)  # noqa: S311
    for _ in range(rng.randint(1, 6)):
        start = rng.randrange(len(text) + 1)
        end = min(len(text), start + int(rng.expovariate(1 / 20)))
        other = rng.randrange(len(text) + 1)
        change = rng.choice(["", text[start:end] * 2, text[other : other + end - start], rng.choice(TOKENS)])
        text = text[:start] + change + text[end:]
    return text


@given(st.sampled_from([*REAL, *EXAMPLES]), st.integers(0, 10**9))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_check_never_raises_on_mutated_code(text: str, seed: int) -> None:
    looked_at(mutated(text, seed))


@given(st.sampled_from(EXAMPLES), st.lists(st.integers(0, 10**9), min_size=1, max_size=5))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_analysis_never_raises_on_a_series_of_mutations(text: str, seeds: list[int]) -> None:
    analysis: Analysis | None = analyse(text)
    for seed in seeds:
        text = mutated(text, seed)
        analysis = analyse(text, before=analysis)


@pytest.mark.slow
@given(st.one_of(hostile.map(IMPORT.__add__), st.builds(mutated, st.sampled_from(EXAMPLES), st.integers(0, 10**9))))
@settings(max_examples=10_000, deadline=None)
def test_check_never_raises_on_very_many_texts(text: str) -> None:
    looked_at(text)


SIZE = 100_000
HOSTILE = {
    "double quotes": '"' * SIZE,
    "single quotes": "'" * SIZE,
    "triple quotes": '"""x ' * (SIZE // 5),
    "mixed quotes": "\"'\"\"\"'''" * (SIZE // 8),
    "open brackets": "(" * SIZE,
    "brackets of all kinds": "([{" * (SIZE // 3),
    "closing brackets": ")" * SIZE,
    "nested brackets": "(" * (SIZE // 2) + ")" * (SIZE // 2),
    "backslashes": "\\" * SIZE,
    "continuations": "\\\n" * (SIZE // 2),
    "empty lines": "\n" * SIZE,
    "comment lines": "#\n" * (SIZE // 2),
    "suppressions": "# remat: ignore[a]\n" * (SIZE // 20),
    "short statements": "x\n" * (SIZE // 2),
    "escapes in a string": '"\\' * (SIZE // 2),
    "escapes in a long string": '"""\\' * (SIZE // 4),
    "strings inside strings": "'''\"\"\"" * (SIZE // 6),
    "strings over lines": '"a\\\n' * (SIZE // 4),
    "open calls": "(a" * (SIZE // 2),
    "empty strings": '""' * (SIZE // 2),
    "decorators": "@\n" * (SIZE // 2),
    "long classes": ("class A:\n" + "    x = 1\n" * 300) * (SIZE // 3000),
    "classes in classes": "class A:\n" + "".join(" " * i + "class B:\n" for i in range(1, 400)),
    "tabs": "\t" * SIZE,
    "an indented nothing": "class A:\n" + " " * SIZE,
    "odd triple quotes": ('"""\n' + 'x = "\n' * 10) * (SIZE // 64),
    "null bytes": "\x00" * SIZE,
    "carriage returns": "x = 1\r" * (SIZE // 6),
    "form feeds": "\f\nx = 1\n" * (SIZE // 8),
    "one long line": "x = '" + "checkpoint" * (SIZE // 10) + "'\n",
    "one long list": "x = [" + "1, " * (SIZE // 20) + "checkpoint(f, x)]\n",
    "a line of findings": "x = [" + "checkpoint(f, x), " * (SIZE // 100) + "]\n",
    "one long name": "x" * SIZE,
    "a long sum": "x = " + "a + " * 1000 + "checkpoint(f, x)\n",
    "deep calls": "x = " + "checkpoint(" * 100 + ")" * 100 + "\n",
    "deep lambdas": "x = " + "lambda: " * 100 + "checkpoint(f, x)\n",
    "deep blocks": "".join(" " * i + "if x:\n" for i in range(90)) + " " * 90 + CALL,
    "a chain of attributes": "x = a" + ".b" * (SIZE // 40) + "\n",
    "a chain of names": "".join(f"a{i + 1} = a{i}\n" for i in range(SIZE // 16)),
    "a name assigned again and again": "x = checkpoint\n" + "x = x.y\n" * (SIZE // 40) + "x(f)\n",
    "many functions with a call": "def f(x):\n    return checkpoint(g, x)\n\n" * (SIZE // 40),
    "many loops with a closure": "for a in b:\n    x = checkpoint(lambda h: a(h), x)\n" * (SIZE // 50),
    "a long loop with closures": "for a in b:\n" + "    x = checkpoint(lambda h: a(h), x)\n" * (SIZE // 300),
    "a long dict": "x = {" + "'use_reentrant': True, " * (SIZE // 40) + "}\n",
}


def seconds(text: str, before: Analysis | None = None) -> tuple[float, Analysis]:
    start = time.process_time()
    analysis = analyse(text, before=before)
    assert analysis is not None
    return time.process_time() - start, analysis


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_costs_little(text: str) -> None:
    """At most 1 s of CPU for 100,000 characters, for a first look and for an edit at either end.

    An idle machine needs less than half. The best of three counts: CPU time doubles where a neighbour fills the cache.
    """
    text = IMPORT + CALL + text
    allowed = 1.0
    _, analysis = seconds(text)
    assert any(seconds(text)[0] < allowed for _ in range(3))
    for edited in (f"x{text}", f"{text}x"):
        assert any(seconds(edited, analysis)[0] < allowed for _ in range(3))


@pytest.mark.parametrize(
    ("text", "start"),
    [
        (f"\ufeff{IMPORT}{CALL}", len(IMPORT) + 5),
        (f"{IMPORT}{CALL}".replace("\n", "\r\n"), len(IMPORT) + 5),
        (f"{IMPORT}s = '\U0001f600'; {CALL}", len(IMPORT) + 13),
        (f"{IMPORT}\f\n{CALL}", len(IMPORT) + 6),
        (f"{IMPORT}'''\r\n\r'''\n{CALL}", len(IMPORT) + 14),
        (f"{IMPORT}if x:\n\ty = checkpoint(f, x)\n", len(IMPORT) + 11),
        (f"#!/usr/bin/env python\n# -*- coding: latin-1 -*-\n{IMPORT}{CALL}", len(IMPORT) + 22 + 26 + 4),
        (f"{IMPORT}{CALL}".rstrip("\n"), len(IMPORT) + 4),
    ],
    ids=["BOM", "CRLF", "astral", "form feed", "CR in a string", "tab", "coding", "no last line end"],
)
def test_the_call_is_found_at_its_place_in_unusual_text(text: str, start: int) -> None:
    (finding,) = check(text)
    assert finding.span.start == start
    assert text[finding.span.start : finding.span.end] == "checkpoint"
    assert finding.fix is not None
    after = finding.fix.apply(text)
    assert after == text.replace("(f, x)", "(f, x, use_reentrant=False)")
    assert check(after) == []


def test_a_statement_that_is_no_python_does_not_hide_the_others() -> None:
    text = f"{IMPORT}{CALL}print 'python 2'\n{CALL}x = = 1\n{CALL}\x00\n{CALL}"
    assert len(check(text)) == 4


def test_code_around_deep_nesting_is_still_checked() -> None:
    deep = "x = " + "(" * 5000 + ")" * 5000 + "\n"
    assert len(check(f"{IMPORT}{CALL}{deep}{CALL}")) == 2


def test_empty_and_blank_texts_have_no_findings() -> None:
    for text in ("", "\n", "\ufeff", " ", "\f", "\x00", "checkpoint", "# remat: ignore"):
        looked_at(text)


REPORT = """
import sys
from remat.lint.check import check
for text in sys.stdin.read().split("\\x00"):
    for finding in check(text):
        print(finding)
"""


@pytest.mark.parametrize("seeds", [range(4), pytest.param(range(20), marks=pytest.mark.slow)], ids=["4", "20"])
def test_findings_are_the_same_for_every_hash_seed(seeds: range) -> None:
    def started(seed: int) -> subprocess.Popen[str]:
        environment = {**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": str(ROOT / "server")}
        return subprocess.Popen(
            [sys.executable, "-c", REPORT], env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    texts = "\x00".join([*REAL, *EXAMPLES])
    seen = set[str]()
    for first in seeds[::2]:
        running = [started(seed) for seed in (first, first + 1)]
        seen |= {process.communicate(texts)[0] for process in running}
        assert [process.returncode for process in running] == [0, 0]
    assert len(seen) == 1
    assert len(seen.pop()) > 1000


DEEP = {
    "open brackets": "x = checkpoint" + "(" * 5000,
    "closed brackets": "x = checkpoint(f, " + "(" * 4000 + "1" + ")" * 4000 + ")\n",
    "brackets over lines": "x = checkpoint(f, " + "(\n" * 4000 + "1" + ")" * 4000 + ")\n",
    "lambdas": "x = checkpoint(f, " + "lambda: " * 4000 + "1)\n",
    "alternatives": "if a:\n    pass\n" + "elif b:\n    checkpoint(f, x)\n" * 1000,
    "conditionals": "x = checkpoint(f, " + "a if b else " * 4000 + "1)\n",
    "operators": "x = checkpoint(f, " + "1 + " * 4000 + "1)\n",
    "attributes": "x = checkpoint(f, a" + ".a" * 4000 + ")\n",
    "calls": "x = checkpoint(f, a" + "()" * 4000 + ")\n",
    "negations over lines": "x = checkpoint(f, (\n" + "not\n" * 20_000 + "x))\n",
    "operators over lines": "x = checkpoint(f, (\n" + "1 **\n" * 20_000 + "x))\n",
    "calls over lines": "x = (checkpoint(f, a)\n" + ".a(1, 2)\n" * 4000 + ")\n",
    "continued lines": "x = not \\\n" + "not \\\n" * 20_000 + "checkpoint(f, a)\n",
    "strings over lines": "x = checkpoint(f, (\n" + '"a"\n' * 20_000 + "))\n",
    "negations": "x = checkpoint(f, " + "not " * 4000 + "a)\n",
}


@pytest.mark.parametrize("deep", DEEP.values(), ids=DEEP.keys())
def test_what_no_python_takes_is_passed_over_and_the_rest_of_the_file_is_read(deep: str) -> None:
    found = check(IMPORT + CALL + deep)
    assert [f.rule for f in found if f.span.start < len(IMPORT + CALL)] == ["checkpoint-without-use-reentrant"]


def test_a_long_list_of_data_is_no_deep_nesting() -> None:
    text = IMPORT + "x = checkpoint(f, [" + "-0.5, a.b(1), " * 4_000 + "])\n"
    assert [f.rule for f in check(text)] == ["checkpoint-without-use-reentrant"]


@pytest.mark.parametrize(
    "odd",
    [
        'd = {"use_cache": 1, "\\x": 2}\nTrainer(model, args=d)\nmodel.gradient_checkpointing_enable()\n',
        'x = "a" b"b"\n',
        "for i, layer in enumerate(self.layers):\n    if i < " + "9" * 5000 + ":\n        x = checkpoint(layer, x)\n"
        "    else:\n        x = layer(x)\n",
        "for i, layer in enumerate(self.layers):\n    if i < "
        + "1 +\\\n " * 900
        + "1:\n        x = checkpoint(layer, x)\n"
        "    else:\n        x = layer(x)\n",
    ],
    ids=["broken escape", "bytes beside text", "huge number", "long sum"],
)
def test_odd_literals_end_no_check(odd: str) -> None:
    found = check(
        IMPORT
        + CALL
        + "class M:\n    def forward(self, x):\n"
        + "".join(f"        {line}\n" for line in odd.split("\n"))
    )
    assert found[0].rule == "checkpoint-without-use-reentrant"


@pytest.mark.parametrize("code", EXAMPLES, ids=range(len(EXAMPLES)))
def test_a_file_whose_lines_end_in_carriage_returns_is_read_and_repaired_alike(code: str) -> None:
    found, returned = check(code), check(code.replace("\n", "\r"))
    assert [(f.rule, f.span, f.message) for f in returned] == [(f.rule, f.span, f.message) for f in found]
    for finding, other in zip(found, returned, strict=True):
        assert (other.fix is None) == (finding.fix is None)
        if finding.fix and other.fix:
            assert other.fix.apply(code.replace("\n", "\r")) == finding.fix.apply(code).replace("\n", "\r")
