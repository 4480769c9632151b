"""Runs that a signal ended, in the words of every Python, and programs that only speak of such ends."""

from __future__ import annotations

import pytest

from remat.diagnose.diagnose import diagnose

AGENT = "W1130 03:00:00.000000 4242 torch/distributed/elastic/agent/server/api.py:732]"
CLOSING = "W1130 03:00:00.100000 4242 torch/distributed/elastic/multiprocessing/api.py:900]"


def stopped(signal: str, closing: str = "SIGTERM", before: str = "step 10 loss 2.1") -> str:
    return "\n".join(
        [
            before,
            f"{AGENT} Received {signal} death signal, shutting down workers",
            f"{CLOSING} Sending process 4300 closing signal {closing}",
            f"{CLOSING} Sending process 4301 closing signal {closing}",
        ]
    )


@pytest.mark.parametrize("signal", ["15", "SIGTERM", "Signals.SIGTERM"])
def test_a_job_that_the_launcher_was_told_to_end_failed_however_python_writes_the_signal(signal: str) -> None:
    report = diagnose(stopped(signal))
    assert report.cause is not None
    assert (report.failed, report.cause.id) == (True, "proc.sigterm_preempt")
    assert "received SIGTERM" in report.cause.summary
    assert [one.rank for one in report.collateral] == [0, 1]


@pytest.mark.parametrize("signal", ["1", "SIGHUP", "Signals.SIGHUP"])
def test_a_terminal_that_closed_is_not_a_scheduler(signal: str) -> None:
    report = diagnose(stopped(signal, "SIGHUP"))
    assert report.cause is not None
    assert report.fix is not None
    assert report.cause.id == "proc.sighup"
    assert "tmux" in report.fix.summary
    assert report.missing == ()
    assert all("(SIGHUP)" in one.summary for one in report.collateral)
    assert "SIGTERM" not in repr(report)


@pytest.mark.parametrize(
    "said", ["INFO Preemption handler installed (SIGTERM)", "signal handler: Preemption checkpointing enabled (USR1)"]
)
def test_a_program_that_prepares_for_a_preemption_was_not_preempted_by_that(said: str) -> None:
    assert diagnose(f"{said}\nstep 10 loss 2.1").failed is False
    report = diagnose(stopped("15", before=said))
    assert report.missing, "who sent the signal is not known"


def test_a_job_that_was_preempted_says_so() -> None:
    report = diagnose(stopped("15", before="scheduler: job 12 Preempted by job 13"))
    assert report.cause is not None
    assert report.missing == ()
