"""A log says the same whatever was put before its lines on the way here."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from remat.diagnose.diagnose import diagnose

if TYPE_CHECKING:
    from collections.abc import Callable

ONE = """\
step 1 loss 2.0
Traceback (most recent call last):
  File "/home/dev/proj/fit.py", line 8, in <module>
    Head()(torch.randn(2, 3, 16, 16))
  File "/home/dev/.venv/lib/python3.11/site-packages/torch/nn/modules/linear.py", line 134, in forward
    return F.linear(input, self.weight, self.bias)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/home/dev/.venv/lib/python3.11/site-packages/torch/nn/modules/module.py", line 1789, in _call_impl
    return forward_call(*args, **kwargs)
RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x768 and 512x10)"""
WIDE = "x" * 50


def each(before: str) -> Callable[[str], str]:
    return lambda text: "\n".join(before + line for line in text.split("\n"))


def wrapped(width: int) -> Callable[[str], str]:
    def wrap(text: str) -> str:
        lines = (
            text.replace("/home/dev/proj", f"/home/{WIDE}/proj")
            .replace("Head()(", f"Head_{WIDE}_{WIDE}()(")
            .split("\n")
        )
        return "\n".join(line[at : at + width] for line in lines for at in range(0, max(len(line), 1), width))

    return wrap


@pytest.mark.parametrize(
    "transform",
    [
        each("2025-05-02T10:11:00.000000000Z "),
        each("2025-05-02T10:11:00.123456789Z stderr F "),
        each("trainer-1  | "),
        each("May 02 10:11:00 node01 train.sh[4411]: "),
        each("[pod/trainer-0/main] "),
        each("  3: "),
        each("node7: "),
        each("[default1]:"),
        each("[rank1]: "),
        each("2025-03-03 10:00:01,123 - root - ERROR - "),
        each("[2025-03-03 10:00:01,123][fit][ERROR] - "),
        each("ERROR:root:"),
        each("(RayTrainWorker pid=1942, ip=10.0.7.57) "),
        each("> "),
        each("[80746] "),
        each("\x1b[31m"),
        each(" 10%|#  | 1/10 [00:01<00:09,  9.1it/s]"),
        each("epoch 0:  10%|#  | 1/10 [00:01<00:09,  9.1it/s]\r"),
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\n".join(json.dumps({"log": f"{line}\n", "stream": "stderr"}) for line in text.split("\n")),
        wrapped(80),
        wrapped(120),
    ],
)
def test_the_cause_and_the_place_are_found_behind_any_prefix(transform: Callable[[str], str]) -> None:
    report = diagnose(transform(ONE))
    assert report.cause is not None
    assert report.cause.id == "shape.matmul"
    assert "2x768 and 512x10" in report.cause.summary
    assert report.location is not None
    assert (report.location.path.split("/")[-1], report.location.line) == ("fit.py", 8)


def test_a_selection_that_starts_inside_a_traceback_asks_for_what_is_above() -> None:
    report = diagnose("    return rows[i]\nIndexError: list index out of range")
    assert report.cause is not None
    assert report.cause.id == "code.user_exception"
    assert "frames above" in report.missing[0].fact


def test_a_rank_inside_a_logger_s_prefix_is_read() -> None:
    log = [each(f"2025-03-03 10:00:01,123 ERROR [Rank {rank}] ")(text) for rank, text in ((0, "step 1"), (3, ONE))]
    assert diagnose("\n".join(log)).initiating_rank == 3


def test_lines_of_a_launcher_that_gives_up_do_not_say_that_a_run_went_on() -> None:
    stopping = "[2025-01-01 10:00:00,000] [INFO] [launch.py:316:sigkill_handler] Killing subprocess 4401"
    assert diagnose(f"{ONE}\n{stopping}\n").failed


def test_a_label_before_a_launchers_own_is_no_rank() -> None:
    crash = (
        "[rank1]: loading\nFatal Python error: Segmentation fault\n\nCurrent thread 0x7f (most recent call first):\n"
    )
    log = crash + '  File "/home/dev/fit.py", line 14 in native\n  File "/home/dev/fit.py", line 20 in <module>\n'
    report = diagnose("".join(f"0: {line}\n" for line in log.splitlines()))
    assert report.cause is not None
    assert report.cause.id == "proc.segfault"
    assert report.initiating_rank is None


@pytest.mark.parametrize("label", ["node07: ", " 0: "])
def test_a_label_before_each_of_a_few_lines_is_one(label: str) -> None:
    log = "usage: fit.py [-h] [--lr LR]\nfit.py: error: unrecognized arguments: --rate 1"
    report = diagnose("".join(f"{label}{line}\n" for line in log.splitlines()))
    assert report.cause is not None
    assert report.cause.id == "config.cli_argument"


def test_a_label_before_a_launchers_log_is_no_rank_either() -> None:
    crash = "what():  [enforce fail at /x/pair.cc:456] 536 vs 24. Received data size doesn't match expected size."
    noticed = "E1130 08:12:11.404000 7 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: -6)"
    begun = "terminate called after throwing an instance of 'gloo::EnforceNotMet'"
    log = f"{begun}\n  {crash}\n{noticed} local_rank: 0 (pid: 9)"
    report = diagnose("".join(f"0: {line}\n" for line in log.splitlines()))
    assert report.cause is not None
    assert report.cause.id == "dist.mismatched_collective"
    assert report.initiating_rank is None
