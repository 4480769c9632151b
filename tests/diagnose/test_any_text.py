"""Whatever is given as a log, a report comes: the same one each time, soon, and claiming only lines that are there."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remat.diagnose.diagnose import diagnose

LINES = [
    "Traceback (most recent call last):",
    '  File "train.py", line 12, in <module>',
    "    loss.backward()",
    "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB",
    "[rank3]: ValueError: boom",
    '[default1]:  File "/a b/c.py", line 3, in f',
    "E1130 03:00:00.1 12 torch/distributed/elastic: failed (exitcode: -9) local_rank: 5 (pid: 77) of binary: python",
    "  exitcode  : -15 (pid: 12)",
    "oom-kill: Killed process 77 (python)",
    "\x1b[31mError\x1b[0m\r 10%|#    | 1/10",
    "During handling of the above exception, another exception occurred:",
    "  + Exception Group Traceback (most recent call last):",
    "$ torchrun train.py",
    "\x00\ufeff \U0001f600",
    "",
]
logs = st.one_of(st.lists(st.sampled_from(LINES), max_size=30).map("\n".join), st.text(max_size=300))


@given(logs)
@settings(max_examples=300, deadline=None, derandomize=True)
def test_a_report_comes_for_any_text_and_names_only_lines_that_are_there(log: str) -> None:
    report = diagnose(log)
    assert report == diagnose(log)
    most = len(log.splitlines()) + 1
    claims = [c for c in (report.cause, *report.also) if c]
    assert [n for claim in claims for n in claim.lines if not 1 <= n <= most] == []


@given(logs)
@settings(max_examples=100, deadline=None, derandomize=True)
def test_a_failure_that_is_named_is_shown_by_lines(log: str) -> None:
    report = diagnose(log)
    assert report.cause is None or report.cause.lines


HOSTILE = {
    "one long line": "RuntimeError: " + "a" * 200_000,
    "spaces": " " * 200_000 + "Error",
    "brackets": "[" * 100_000,
    "colons": "Error: " * 30_000,
    "digits": "RuntimeError: " + "1" * 200_000,
    "sizes": "torch.Size([" + "1, " * 50_000,
    "quotes": '  File "' * 20_000,
    "escapes": "\x1b[" * 50_000,
    "frames": "\n".join(['  File "a.py", line 1, in f'] * 20_000),
}


@pytest.mark.parametrize("log", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_log_costs_little(log: str) -> None:
    start = time.process_time()
    diagnose(log)
    assert time.process_time() - start < 2
