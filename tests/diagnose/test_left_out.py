"""A text in the middle of which lines were left out: nothing is joined across them."""

from __future__ import annotations

import pytest

from remat.diagnose.diagnose import diagnose

GAP = "[Remat left out 5,000,000 characters here]"
BEFORE = 'Traceback (most recent call last):\n  File "/w/innocent.py", line 7, in warmup\n    retry()'
ERROR = "RuntimeError: CUDA error: an illegal memory access was encountered"


@pytest.mark.parametrize("between", ["", "\n".join(f"step {n}" for n in range(1500)) + "\n"])
def test_frames_before_lines_that_were_left_out_are_not_those_of_the_exception_behind(between: str) -> None:
    report = diagnose(f"{between}{BEFORE}\n{GAP}\n    loss.backward()\n{ERROR}")
    assert report.cause is not None
    assert report.cause.id == "cuda.illegal_memory"
    assert report.location is None
    assert "innocent" not in repr(report)


def test_frames_behind_lines_that_were_left_out_are_kept_and_known_to_be_cut_off() -> None:
    cut = f'{GAP}\n  File "/w/train.py", line 9, in main\n    x = y["k"]\nKeyError: \'k\''
    report = diagnose(f"{BEFORE}\n{cut}")
    assert report.location is not None
    assert report.location.path == "/w/train.py"
    assert ["cut off at its head" in one.why for one in report.missing] == [True]


def test_a_message_before_lines_that_were_left_out_ends_there() -> None:
    report = diagnose(f"{BEFORE}\nKeyError: 'k'\n{GAP}\nsomething else")
    assert report.location is not None
    assert report.location.path == "/w/innocent.py"
    assert "something else" not in repr(report)


def test_a_traceback_behind_lines_that_were_left_out_is_whole() -> None:
    report = diagnose(f"{BEFORE}\n{GAP}\n{BEFORE}\nKeyError: 'k'")
    assert report.location is not None
    assert report.missing == ()
