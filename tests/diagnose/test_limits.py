"""A few lines with huge numbers cost no memory: a rank, a world, a list of tasks that no job has."""

from __future__ import annotations

import tracemalloc

import pytest

from remat.diagnose.diagnose import diagnose

ENTRY = "[{0}]:\n  time      : t\n  host      : n1\n  rank      : {1} (local_rank: {1})\n  exitcode  : 1 (pid: 4{0})\n"
LISTED = "Failures:\n" + ENTRY.format(1, "{0}") + "Root Cause (first observed failure):\n" + ENTRY.format(0, 0)
GATHERED = (
    "[rank{0}]: [Rank {0}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={2}, OpType=_ALLGATHER_BASE, "
    "NumelIn=1, NumelOut={1}, Timeout(ms)=1) ran for 2 milliseconds before timing out."
)
HUGE = ("65536", "5000000", "9" * 5000)


def peak(log: str) -> int:
    tracemalloc.start()
    diagnose(log)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most


@pytest.mark.parametrize("number", HUGE)
def test_a_huge_number_in_a_short_log_costs_no_memory(number: str) -> None:
    logs = (
        LISTED.format(number),
        "\n".join(GATHERED.format(rank, number, 412) for rank in (0, 2)),
        "\n".join(GATHERED.format(rank, 2, number) for rank in (0, 2)),
        f"[Rank {number}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=X, Timeout(ms)=1)",
        f"srun: error: n1: tasks 1-2-3,0-{number},3-{number}: Killed",
        f"E1130 torch/distributed/elastic: failed (exitcode: 1) local_rank: {number} (pid: {number})",
    )
    for log in logs:
        assert peak(log) < 40 << 20


def test_many_ranges_of_tasks_cost_no_memory() -> None:
    assert peak("srun: error: n1: tasks " + ",".join(["0-65535"] * 2000) + ": Killed") < 80 << 20
