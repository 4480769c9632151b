"""Processes that mp.spawn started and stopped: named only where all others were stopped."""

from __future__ import annotations

from remat.diagnose.diagnose import diagnose


def spawned(stopped: int, processes: str) -> str:
    where = "W1130 03:00:00.100000 4242 torch/multiprocessing/spawn.py:169]"
    return "\n".join(
        [
            *(f"{where} Terminating process {500 + at} via signal SIGTERM" for at in range(stopped)),
            "Traceback (most recent call last):",
            '  File "/w/train.py", line 50, in <module>',
            f"    mp.spawn(main, nprocs={processes})",
            "torch.multiprocessing.spawn.ProcessRaisedException: ",
            "",
            "-- Process 1 terminated with the following error:",
            "Traceback (most recent call last):",
            '  File "/w/train.py", line 33, in main',
            "    x = table[key]",
            "KeyError: 'q_proj'",
        ]
    )


def test_all_others_were_stopped_and_are_named() -> None:
    report = diagnose(spawned(3, "4"))
    assert report.initiating_rank == 1
    assert [one.rank for one in report.collateral] == [0, 2, 3]


def test_where_some_had_finished_nobody_is_named_only_how_many_were_stopped() -> None:
    for processes in ("4", "world"):
        report = diagnose(spawned(2, processes))
        assert report.initiating_rank == 1
        assert report.collateral == ()
        assert "stopped 2 other process(es)" in report.also[-1].summary
        assert report.also[-1].lines == (1, 2)
