"""Many jobs run in several processes, and no death of one costs the others' results."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from remat.pool import processors, spread


def double(jobs):
    return [job * 2 for job in jobs]


def die_of_13(jobs):
    if 13 in jobs:
        os.kill(os.getpid(), signal.SIGKILL)
    return double(jobs)


def test_results_come_in_the_order_of_the_jobs_and_progress_is_told():
    told = []
    assert spread(double, range(100), lambda job: -job, told.append) == [job * 2 for job in range(100)]
    assert sum(told) == 100


def test_a_process_that_dies_costs_only_the_job_it_died_of():
    told = []
    results = spread(die_of_13, range(100), lambda _: "lost", told.append)
    assert results == [job * 2 if job != 13 else "lost" for job in range(100)]
    assert sum(told) == 100


def test_there_is_at_least_one_processor():
    assert processors() >= 1


def test_an_interrupt_ends_a_long_check_at_once_with_130_and_leaves_no_process_and_no_traceback(tmp_path):
    block = "from torch.utils.checkpoint import checkpoint\n" + "y = checkpoint(f, x)\n" * 2000
    for number in range(250):
        (tmp_path / f"m{number}.py").write_text(block)
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent / "server")}
    running = subprocess.Popen(
        [sys.executable, "-m", "remat", "check", "--output-format", "json"],
        cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    children = Path(f"/proc/{running.pid}/task/{running.pid}/children")
    deadline = time.monotonic() + 60
    while not children.read_text().strip() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.5)
    workers = children.read_text().split()
    assert workers
    running.send_signal(signal.SIGINT)
    output, errors = running.communicate(timeout=20)
    assert (running.returncode, output, errors.strip()) == (130, "", "remat: interrupted")
    time.sleep(0.2)
    assert [pid for pid in workers if Path(f"/proc/{pid}/cmdline").exists()] == []
