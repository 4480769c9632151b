"""Any text gets an answer, soon, and the same each time."""

from __future__ import annotations

import importlib
import pkgutil
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remat import diagnose as diagnose_package
from remat.diagnose.diagnose import diagnose
from remat.diagnose.notices import MARKS
from remat.diagnose.signatures import PATTERNS, SIGNATURES
from remat.render.diagnosis import Diagnosed, as_json, as_markdown, as_text

WATCHDOG = (
    "[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5, OpType=X, NumelIn=1, NumelOut=1, "
    "Timeout(ms)=1)"
)
PIECES = st.sampled_from(
    [
        "Traceback (most recent call last):",
        '  File "a.py", line 3, in f',
        "    x = 1",
        "[rank1]: ",
        "[rank0]:",
        "  | ",
        "ValueError: no",
        "\r",
        "\x1b[31m",
        '{"log": ',
        "3: ",
        "node1: ",
        "failed (exitcode: -9) local_rank: 1 (pid: 7)",
        "Root Cause (first observed failure):",
        "  rank      : 1 (local_rank: 1)",
        "  exitcode  : -9 (pid: 7)",
        "  traceback : Traceback (most recent call last):",
        "-- Process 1 terminated with the following error:",
        WATCHDOG,
        "During handling of the above exception, another exception occurred:",
        "$ python a.py",
        "step 3 loss nan",
        "CUDA out of memory. Tried to allocate 1.2.3 GiB",
        "srun: error: n1: tasks 0-99999999999: Killed",
        "Detected mismatch between collectives on ranks. Rank 1 is running collective: CollectiveFingerPrint(",
        "╭─ Traceback (most recent call last) ─╮",
        "│ /a.py:3 in f │",
        "╰──╯",
        "Sending process 7 closing signal SIGTERM",
        "9" * 5000,  # more than int() takes
        f"Process {'1' * 5000} terminated with exit code {'2' * 5000}",
        f"failed (exitcode: {'3' * 5000}) local_rank: {'4' * 5000} (pid: {'5' * 5000})",
        f"  rank      : {'6' * 5000} (local_rank: {'6' * 5000})",
        '  File "a.py", line ' + "7" * 5000 + ", in f",
        "srun: error: n1: tasks 1,",
        "DataLoader worker (pid ",
    ]
)
LOGS = st.lists(st.one_of(PIECES, st.text(max_size=30), st.just("\n")), max_size=60).map("".join)


@settings(max_examples=400, deadline=None)
@given(LOGS)
def test_no_text_raises_and_every_claim_has_lines_of_the_text(text: str) -> None:
    report = diagnose(text)
    last = max(text.count("\n") + 1, 1)
    claims = [*([report.cause] if report.cause else []), *report.also, *report.decided]
    for claim in [*claims, *report.collateral]:
        assert claim.lines
        assert all(1 <= line <= last for line in claim.lines)
    for write in (as_json, as_text, as_markdown):
        write([Diagnosed("log", report)])


@settings(max_examples=100, deadline=None)
@given(LOGS)
def test_the_same_text_gets_the_same_report_as_a_text_and_line_by_line(text: str) -> None:
    *lines, rest = text.split("\n")
    assert diagnose(text) == diagnose(iter([*(f"{line}\n" for line in lines), *([rest] if rest else [])]))


NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.])")


@pytest.mark.parametrize(
    "text", sorted({example for signature in SIGNATURES for example in signature.examples} | {WATCHDOG})
)
def test_no_number_is_too_long_wherever_it_stands(text: str) -> None:
    diagnose(NUMBER.sub("8" * 5000, text))
    for number in NUMBER.finditer(text):
        diagnose(f"{text[: number.start()]}{'8' * 5000}{text[number.end() :]}")


def expressions() -> set[str]:
    """Every regular expression of the engine, wherever a module keeps it."""
    modules = [
        importlib.import_module(found.name)
        for found in pkgutil.walk_packages(diagnose_package.__path__, "remat.diagnose.")
    ]
    kept = {value.pattern for module in modules for value in vars(module).values() if isinstance(value, re.Pattern)}
    return {*kept, *PATTERNS, *(mark.pattern.pattern for mark in MARKS)}


@pytest.mark.parametrize("pattern", sorted(expressions()))
def test_a_pattern_takes_linear_time(pattern: str) -> None:
    compiled = re.compile(pattern, re.MULTILINE)
    words = {w for s in SIGNATURES if s.pattern == pattern for w in s.words} | {
        m.needle for m in MARKS if m.pattern.pattern == pattern
    }
    for unit in [
        *sorted(words),
        "a",
        " ",
        "0",
        "[",
        "'",
        "Rank 1 ",
        "x.y.",
        "1, ",
        "a: ",
        "/a",
        '"',
        "1:",
        " 1",
        ", ",
        "(",
        "\\",
    ]:
        text = (unit * (10_000 // len(unit) + 1))[:10_000]
        assert any(seconds(compiled, text) < 1 for _ in range(3)), unit  # a busy neighbour may spoil one


def seconds(pattern: re.Pattern[str], text: str) -> float:
    start = time.process_time()
    pattern.search(text)
    return time.process_time() - start


def test_a_long_line_of_anything_is_read_in_no_time() -> None:
    for unit in ("[rank1]:", "Traceback (most recent call last):", "a.b.", "| ", "  0%|", "\x1b[", "\r", "\x1b]0;"):
        start = time.process_time()
        diagnose(unit * 100_000 + "\n" + unit)
        assert time.process_time() - start < 2, unit


def test_control_characters_and_markup_of_a_log_cannot_act_in_a_report() -> None:
    hostile = (
        'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    x\n'
        "ValueError: \x1b]8;;http://e\x07<script>[a](http://e)\u202e\n"
    )
    report = [Diagnosed("log\x1b[31m", diagnose(hostile))]
    for written in (as_json(report), as_text(report), as_markdown(report)):
        assert not any(ch in written for ch in "\x1b\x07\u202e")
    assert "<script>" not in as_markdown(report)
    assert "[a](" not in as_markdown(report)
