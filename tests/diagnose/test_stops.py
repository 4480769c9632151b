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


EVENTS = "low 0\nhigh 0\nmax 0\noom 0\noom_kill {}\noom_group_kill 0"


def cause(text: str) -> str | None:
    report = diagnose(text)
    return report.cause.id if report.cause is not None else None


def test_a_counter_of_killed_processes_that_is_zero_is_no_kill() -> None:
    assert cause(f"step 10 loss 2.1\nKilled\n{EVENTS.format(0)}") == "proc.sigkill_unknown"
    assert cause("epoch 1 loss 1.0\nmemory.events: oom 0 oom_kill 0\nTraining finished") is None
    assert cause("slurmstepd: Detected 0 oom_kill events in StepId=1.0\nstep 1") is None


def test_a_counter_of_killed_processes_explains_a_kill_and_is_none_by_itself() -> None:
    assert cause(f"step 10 loss 2.1\nKilled\n{EVENTS.format(1)}") == "mem.host_oom_kill"
    assert cause(f"step 10 loss 2.1\n{EVENTS.format(1)}") is None


def test_a_record_of_the_kernel_in_a_test_that_passed_is_no_kill() -> None:
    log = "ERROR    root:x.py:1 Out of memory: Killed process 123 (python)"
    assert cause(f"{log}\n====== 2 passed in 3.21s ======") is None
    assert cause(log) == "mem.host_oom_kill"


def test_the_words_of_slurm_and_of_the_kernel_are_a_kill() -> None:
    for text in (
        "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks have been OOM Killed.",
        "slurmstepd: error: Detected 1 oom-kill event(s) in step 7.batch cgroup.",
        "[1.0] python invoked oom-killer: gfp_mask=0xcc0, order=0",
        "[1.0] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),task=python,pid=7,uid=0",
    ):
        assert cause(text) == "mem.host_oom_kill", text
