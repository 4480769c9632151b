"""Numbers of collectives count in their process group: ranks of different groups are not compared."""

from __future__ import annotations

from remat.diagnose.diagnose import diagnose

CALL = (
    "[rank{rank}]:[E1130 03:12:11.1 ProcessGroupNCCL.cpp:632] [{group}Rank {rank}] Watchdog caught collective "
    "operation timeout: WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn=4096, NumelOut={out}, Timeout(ms)=600000) ran for "
    "600012 milliseconds before timing out."
)
DUMP = (
    "[rank{rank}]:[E1130 03:12:11.2 ProcessGroupNCCL.cpp:1] [{group}Rank {rank}] Received a dump signal due to a "
    "collective timeout from  rank 0 and we will try our best to dump the debug info. Last enqueued NCCL work: {last}, "
    "last completed NCCL work: {last}."
)


def call(rank: int, number: int | None = None, seq: int = 10, op: str = "ALLREDUCE", out: int = 4096) -> str:
    return CALL.format(rank=rank, group=named(number), seq=seq, op=op, out=out)


def dump(rank: int, number: int | None, last: int) -> str:
    return DUMP.format(rank=rank, group=named(number), last=last)


def named(number: int | None) -> str:
    return "" if number is None else f"PG ID {number} PG GUID {number} "


def found(*lines: str) -> tuple[str, int | None, str]:
    report = diagnose("\n".join(lines))
    assert report.cause is not None
    return report.cause.id, report.initiating_rank, report.cause.summary


def test_a_rank_outside_a_gathering_group_is_not_missed() -> None:
    gather = [call(rank, op="_ALLGATHER_BASE", out=8192) for rank in (0, 2)]
    assert found(*gather)[:2] == ("nccl.timeout_undetermined", None)


def test_another_collective_of_another_group_is_no_difference() -> None:
    identity, rank, said = found(*(call(rank, 1) for rank in range(3)), call(3, 4, op="BROADCAST"))
    assert (identity, rank) == ("nccl.timeout_undetermined", None)
    assert said.startswith("Ranks 0, 1, 2 of group 1 timed out in collective 10 ")
    assert "Rank 3 timed out in another one: BROADCAST, number 10 of group 4." in said


def test_another_collective_of_the_same_group_is_one() -> None:
    assert found(*(call(rank, 1) for rank in range(3)), call(3, 1, op="BROADCAST"))[:2] == (
        "nccl.mismatched_collective",
        3,
    )


def test_a_rank_that_timed_out_itself_was_not_late_whatever_it_says_of_another_group() -> None:
    said = found(*(call(rank, 0) for rank in range(4)), dump(1, 2, 4))
    assert said[:2] == ("nccl.timeout_undetermined", None)
    assert found(*(call(rank, 0) for rank in range(4)), dump(1, 0, 4))[:2] == ("nccl.timeout_undetermined", None)


def test_the_rank_whose_last_work_in_the_same_group_comes_before_is_late() -> None:
    waiting = [call(rank, 0) for rank in (0, 2, 3)]
    assert found(*waiting, dump(1, 2, 40), dump(1, 0, 9))[:2] == ("nccl.timeout_rank_absent", 1)


def test_ranks_that_timed_out_in_another_number_are_not_counted_in() -> None:
    identity, rank, said = found(call(0), call(1), call(2, seq=7))
    assert (identity, rank) == ("nccl.timeout_undetermined", None)
    assert said.startswith("Ranks 0, 1 timed out in collective 10 ")
    assert "Rank 2 timed out in another one: ALLREDUCE, number 7." in said


def test_the_rank_is_the_process_s_not_the_one_that_a_smaller_group_counts() -> None:
    lines = [call(0, 3).replace("[rank0]", "[rank4]"), call(1, 3).replace("[rank1]", "[rank6]")]
    assert "(every rank shown: 4, 6)" in found(*lines)[2]
