"""Who began it: the order of evidence, and silence where the log does not show it."""

from __future__ import annotations

import pytest

from remat.diagnose.diagnose import diagnose

CLOSED = "RuntimeError: [/x/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:1."
WAITED = (
    "RuntimeError: [/x/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 6000ms for recv operation to complete"
)


def raised(rank: int | None, error: str, time: str = "") -> str:
    prefix = f"{time}[rank{rank}]: " if rank is not None else time
    lines = [
        "Traceback (most recent call last):",
        '  File "/home/dev/fit.py", line 9, in main',
        "    step()",
        *error.split("\n"),
    ]
    return "\n".join(prefix + line for line in lines)


def closing(*pids: int) -> str:
    return "\n".join(
        f"W1130 00:47:15.495000 1 torch/x/api.py:1] Sending process {p} closing signal SIGTERM" for p in pids
    )


def ended(*entries: tuple[int, int], root: int) -> str:
    """torchelastic's block: (rank, exit code) each, pid 10 + rank."""
    blocks = {
        rank: f"[0]:\n  time      : 2026-11-30_00:47:15\n  host      : h\n  rank      : {rank} (local_rank: {rank})\n"
        f"  exitcode  : {code} (pid: {10 + rank})\n  error_file: <N/A>\n  traceback : To enable traceback see: x"
        for rank, code in entries
    }
    others = "\n".join(text for rank, text in blocks.items() if rank != root) or "  <NO_OTHER_FAILURES>"
    return f"train.py FAILED\nFailures:\n{others}\n-----\nRoot Cause (first observed failure):\n{blocks[root]}\n====="


def check(log: list[str], cause: str, rank: int | None, collateral: list[int]) -> None:
    report = diagnose("\n".join(log))
    assert report.cause is not None
    found = report.cause.id, report.initiating_rank, [one.rank for one in report.collateral]
    assert found == (cause, rank, collateral)
    assert report.fix is not None
    assert report.verify


def test_a_killed_rank_that_said_nothing_is_named_though_the_launcher_names_another() -> None:
    block = ended((0, -15), (1, 1), (2, -9), (3, 1), root=1)
    check(
        [raised(0, CLOSED), raised(1, CLOSED), raised(3, CLOSED), closing(10), block],
        "proc.sigkill_unknown",
        2,
        [0, 1, 3],
    )


def test_the_one_rank_with_an_error_of_its_own_began_it() -> None:
    check([raised(0, CLOSED), raised(1, "ValueError: bad label"), closing(10)], "code.user_exception", 1, [0])


def test_the_same_error_on_every_rank_names_none() -> None:
    check([raised(0, "ValueError: bad 1"), raised(1, "ValueError: bad 2")], "code.user_exception", None, [])


def test_different_errors_without_clocks_are_in_no_order() -> None:
    log = [raised(1, "KeyError: 'a'"), raised(2, "IndexError: x"), raised(0, CLOSED)]
    check(log, "ambiguous.concurrent_failures", None, [0])


def test_different_errors_with_clocks_are_in_order() -> None:
    log = [
        raised(2, "IndexError: x", "2025-05-02T10:11:00.900Z "),
        raised(1, "KeyError: 'a'", "2025-05-02T10:11:00.100Z "),
    ]
    check(log, "code.user_exception", 1, [])


def test_the_rank_that_does_not_complain_is_the_one_that_stalled() -> None:
    log = ["[rank 2] step 1", raised(0, WAITED), raised(1, WAITED), ended((0, 1), (1, 1), (2, -15), root=0)]
    check(log, "dist.peer_stalled", 2, [0, 1])


def test_a_monitored_barrier_names_who_did_not_come() -> None:
    log = [raised(0, "RuntimeError: Rank 2 failed to pass monitoredBarrier in 5000 ms"), raised(1, WAITED)]
    check(log, "dist.peer_stalled", 2, [0, 1])


def test_a_rank_that_left_early_with_status_0_departed() -> None:
    log = ["[rank 2] bye", raised(0, CLOSED), raised(1, CLOSED), ended((0, 1), (1, 1), root=0)]
    check(log, "dist.rank_divergent_control_flow", 2, [0, 1])


def test_one_complaint_against_peers_that_ended_well_names_nobody() -> None:
    check([raised(0, CLOSED), ended((0, 1), root=0)], "dist.rank_divergence_undetermined", None, [])


def test_an_error_without_a_rank_is_that_of_the_only_rank_with_an_error_status() -> None:
    log = [raised(None, "ValueError: bad"), closing(10), ended((0, -15), (1, 1), root=1)]
    check(log, "code.user_exception", 1, [0])


def test_a_sigterm_that_the_launcher_did_not_send_came_from_outside() -> None:
    block = ended((0, -15), (1, -15), (2, -15), root=2)
    check([raised(0, CLOSED), raised(1, CLOSED), closing(10, 11), block], "proc.sigterm_preempt", 2, [0, 1])


def test_the_fingerprint_that_no_other_rank_has_is_the_departed_one_s() -> None:
    call = "CollectiveFingerPrint(SequenceNumber=5, OpType={}, TensorShape=[4], TensorDtypes=Float, x)"
    log = [
        raised(r, f"RuntimeError: Detected mismatch between collectives on ranks. Rank {r} is running "
        "collective: "
        f"{call.format('BROADCAST' if r == 2 else 'ALLREDUCE')}, but Rank 9 is running collective: {call.format('X')}.")
        for r in range(4)
    ]  # fmt: skip
    check(log, "dist.rank_divergent_control_flow", 2, [0, 1, 3])


def test_a_restart_that_helped_is_no_failure() -> None:
    log = [
        raised(0, "ValueError: x"),
        "E1130 00:47:15.6 1 torch/x/api.py:1] failed (exitcode: 1) local_rank: 0 (pid: 10) of binary: python",
        "W1130 00:47:16.1 1 torch/x/api.py:8] [default] FAILED. 3/3 attempts left; will restart worker group",
        "[rank0]: step 1 loss 2",
        "training finished",
    ]
    report = diagnose("\n".join(log))
    assert not report.failed
    assert report.cause is None


def test_an_error_after_which_the_run_went_on_is_no_failure() -> None:
    report = diagnose(raised(None, "ConnectionError: reset") + "\nINFO shard fetched on attempt 2\nstep 5 loss 1.0")
    assert not report.failed
    assert any("Recovered" in claim.summary for claim in report.also)


def test_a_monitored_barrier_names_the_rank_though_gloos_own_text_follows() -> None:
    late = (
        "RuntimeError: [Rank 0]: Rank 2 failed to pass monitoredBarrier in 4000 ms\n Original exception: \n"
        "[/x/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 3999ms for recv operation to "
        "complete"
    )
    passed = (
        "RuntimeError: Rank 1 successfully reached monitoredBarrier, but received errors while waiting for send/recv "
        "from rank 0. Please check rank 0 logs for faulty rank.\n Original exception: \n"
        "[/x/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:14764."
    )
    block = ended((0, 1), (1, 1), (2, -15), root=0)
    check([raised(1, passed), raised(0, late), closing(12), block], "dist.peer_stalled", 2, [0, 1])


def test_a_rank_between_those_in_the_launchers_list_ended_with_0_before_the_others_lost_it() -> None:
    block = ended((0, -15), (2, 1), root=2)
    check([raised(0, CLOSED), raised(2, CLOSED), closing(10), block], "dist.rank_divergent_control_flow", 1, [0, 2])


def test_gloos_receiver_of_another_size_is_a_victim_and_the_sender_is_unknown() -> None:
    aborted = (
        "terminate called after throwing an instance of 'gloo::EnforceNotMet'\n"
        "  what():  [enforce fail at /x/gloo/transport/tcp/pair.cc:456] op.preamble.length <= op.nbytes. 536 vs 24. "
        "Received data size doesn't match expected size. Is there a distributed collective mismatch in your code?"
    )
    log = "\n".join([aborted, closing(11), ended((0, -6), (1, -15), root=0)])
    check([log], "dist.mismatched_collective", None, [])
    report = diagnose(log)
    assert report.cause is not None
    assert "expected 24 bytes and received 536" in report.cause.summary
    assert [one.fact[:16] for one in report.missing] == ["which rank sent "]


DUMP = """torch.distributed.checkpoint.api.CheckpointException: CheckpointException ranks:dict_keys([2])
Traceback (most recent call last): (RANK 2)
  File "/venv/lib/python3.11/site-packages/torch/distributed/checkpoint/filesystem.py", line 700, in read_data
    with self.fs.create_stream(new_path, "rb") as stream:
FileNotFoundError: [Errno 2] No such file or directory: '/ckpt/__2_0.distcp'"""


def test_an_error_that_a_distributed_checkpoint_raises_on_every_rank_is_the_rank_s_that_it_names() -> None:
    check([raised(rank, DUMP) for rank in range(4)], "io.file_missing", 2, [0, 1, 3])
    assert "told it of rank 2" in diagnose("\n".join(raised(rank, DUMP) for rank in range(4))).collateral[0].summary


def test_an_error_that_a_distributed_checkpoint_collects_from_every_rank_is_nobody_s() -> None:
    every = DUMP.replace("[2]", "[0, 1]").replace("(RANK 2)", "(RANK 0)") + DUMP[DUMP.index("\n") :].replace(
        "RANK 2", "RANK 1"
    )
    check([raised(rank, every) for rank in range(2)], "io.file_missing", None, [])


def test_a_traceback_in_a_launcher_s_list_is_that_rank_s() -> None:
    text = (
        'Traceback (most recent call last):\n    File "/home/dev/fit.py", line 9, in f\n      g()\n  ValueError: no\n'
    )
    others, root = ended((3, 1), (5, -15), root=3).split("Root Cause")
    report = diagnose(f"{others}Root Cause{root.replace('To enable traceback see: x', text)}")
    assert report.cause is not None
    assert (report.cause.id, report.initiating_rank) == ("code.user_exception", 3)


def test_a_restart_that_ended_well_is_no_failure() -> None:
    log = [
        raised(1, "ValueError: x"),
        "E1130 00:47:15.6 1 torch/x/api.py:1] failed (exitcode: 1) local_rank: 1 (pid: 10) of binary: python",
        "W1130 00:47:16.1 1 torch/x/api.py:8] [default] FAILED. 3/3 attempts left; will restart worker group",
        "I1130 01:47:16.1 1 torch/x/api.py:9] [default] worker group successfully finished.",
    ]
    assert not diagnose("\n".join(log)).failed


def test_a_task_that_ran_out_of_memory_is_not_a_cancelled_job() -> None:
    log = [
        "slurmstepd: error: Detected 1 oom_kill event in StepId=884213.0. Some of the step tasks have been OOM Killed.",
        "srun: error: gpu017: task 5: Out Of Memory",
        "slurmstepd: error: *** STEP 884213.0 ON gpu016 CANCELLED AT 2025-02-05T07:16:01 ***",
        "srun: error: gpu016: tasks 0-3: Terminated",
    ]
    check(log, "mem.host_oom_kill", 5, [0, 1, 2, 3])


def test_a_rank_that_waits_in_another_group_is_not_called_absent() -> None:
    where = (
        "[rank{0}]:[E321 03:42:15.4 ProcessGroupNCCL.cpp:1785] [PG ID {1} PG GUID {1} Rank {0}] Exception (either an "
    )
    told = (
        "error or timeout) detected by watchdog at work: {}, last enqueued NCCL work: {}, last completed NCCL work: {}."
    )
    call = (
        "[Rank {}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=120, OpType=ALLREDUCE, Timeout(ms)=1)"
    )
    log = [call.format(rank) for rank in (0, 1)] + [where.format(r, 1) + told.format(120, 122, 119) for r in (0, 1)]
    check([*log, where.format(2, 2) + told.format(30, 31, 29)], "nccl.timeout_undetermined", None, [0, 1, 2])


def attempt(error: str, *said: str) -> list[str]:
    """What processes that made no group print: no rank before a line, other ranks' output after the error."""
    return [raised(None, error), *said, closing(10).replace("Sending process 10 closing signal SIGTERM", NOTICED)]


NOTICED = "failed (exitcode: 1) local_rank: 1 (pid: 11) of binary: /usr/bin/python3"


def test_a_restart_of_processes_without_ranks_that_helped_is_no_failure() -> None:
    report = diagnose("\n".join([*attempt("OSError: not there yet"), "Training finished", "Training finished"]))
    assert not report.failed
    assert any("Recovered" in one.summary for one in report.also)


def test_a_launcher_that_notices_a_failure_and_prints_no_more_was_cut_off_and_the_failure_stands() -> None:
    report = diagnose("\n".join(attempt("OSError: not there yet", "step 3 loss 2.0")))
    assert report.failed
    assert report.cause is not None
    assert "not there yet" in report.cause.summary


@pytest.mark.parametrize("said_last", ["", "step 0 loss 1.0"])
def test_of_attempts_that_failed_alike_the_first_is_told_though_output_of_others_follows_them(said_last: str) -> None:
    first = attempt("IndexError: list index out of range", "step 0 loss 1.0")
    second = [line.replace("pid: 11", "pid: 21") for line in first if line != said_last]
    block = ended((1, 1), root=1)
    report = diagnose("\n".join(["step 0 loss 1.0", *first, "step 0 loss 1.0", *second, block]))
    assert report.cause is not None
    assert (report.cause.id, report.initiating_rank) == ("code.user_exception", 1)
    assert report.location is not None


def listed(*entries: tuple[int, int], root: int) -> list[str]:
    return ended(*entries, root=root).split("\n")


def test_an_exit_whose_traceback_may_stand_above_the_text_is_not_said_to_have_printed_nothing() -> None:
    whole = ["[rank0]: warming up", raised(0, CLOSED), closing(10), ended((0, -15), (1, 1), root=1)]
    check(whole, "proc.exit_no_trace", 1, [0])
    lines = "\n".join(whole).split("\n")
    report = diagnose("\n".join(lines[3:]))
    assert report.cause is not None
    assert (report.cause.id, report.initiating_rank) == ("ambiguous.no_traceback", None)
    assert report.missing


def test_a_rank_in_the_middle_of_its_own_traceback_at_the_end_of_the_text_keeps_the_other_from_being_named() -> None:
    whole = "\n".join([raised(0, "ValueError: bad 0"), raised(1, "ValueError: bad 1")])
    report = diagnose("\n".join(whole.split("\n")[:-1]))
    assert report.cause is not None
    assert report.initiating_rank is None
    assert ["rank 1 raised" in one.fact for one in report.missing] == [True]


def test_a_rank_is_not_missed_in_a_launchers_list_that_is_cut_off() -> None:
    block = listed((0, -15), (1, -11), (2, 1), root=1)
    cut = block[: next(at for at, line in enumerate(block) if line.startswith("Root Cause"))]
    report = diagnose("\n".join([raised(0, CLOSED), raised(2, CLOSED), *cut]))
    assert report.initiating_rank is None


def test_the_last_lines_of_a_launchers_report_say_that_something_failed() -> None:
    report = diagnose("\n".join(listed((1, 1), root=1)[-3:]))
    assert report.failed
    assert report.missing


def test_the_last_lines_of_a_launcher_that_raised_say_that_something_failed() -> None:
    raising = (
        "    raise subprocess.CalledProcessError(returncode=process.returncode, cmd=cmd)\n"
        "subprocess.CalledProcessError: Command '['python', 'fit.py']' returned non-zero exit status 2."
    )
    report = diagnose(raising)
    assert report.failed
    assert report.missing


def test_a_rank_that_ended_with_an_error_that_is_not_shown_keeps_the_other_from_being_named() -> None:
    block = ended((0, 1), (1, 1), root=1)
    report = diagnose("\n".join(["[rank1]: step 3 loss 2.0", raised(0, "ValueError: bad label"), block]))
    assert report.cause is not None
    assert (report.cause.id, report.initiating_rank) == ("code.user_exception", None)
    assert ["rank 1 raised" in one.fact for one in report.missing] == [True]


def test_a_hardware_fault_that_a_watchdog_reports_is_its_rank_s() -> None:
    call = (
        "[Rank {}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=600, OpType=ALLREDUCE, Timeout(ms)=1)"
    )
    where = (
        "[rank3]:[E618 08:47:49.000000001 ProcessGroupNCCL.cpp:1515] [PG ID 0 PG GUID 0(default_pg) Rank 3] Process "
    )
    log = [
        f"{where}group watchdog thread terminated with exception: CUDA error: uncorrectable ECC error encountered",
        *(call.format(rank) for rank in (0, 1, 2)),
    ]
    check(log, "cuda.ecc", 3, [0, 1, 2])


def test_an_error_status_beside_a_silent_abort_names_nobody() -> None:
    check([ended((1, -6), (3, 1), root=3)], "ambiguous.no_traceback", None, [])


def test_ordinary_lines_that_sound_like_failures_are_none() -> None:
    for text in (
        "Accuracy: 0.91\nError: 0.0312",
        "Killed 4 stale workers\nstep 3 loss 2.0",
        "Training complete\nslurmstepd: error: *** STEP 1.extern ON n1 CANCELLED AT 2025-01-01T00:00:00 ***",
        '{"text": "a RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB"}\nstep 3 loss 2.0',
        "Process finished with exit code 0\ntrainer-1 exited with code 0",
        'def f():\n    raise ValueError("x")\n    try:\n        pass\n    except RuntimeError as e:\n        print(e)',
    ):
        assert not diagnose(text).failed, text


def test_a_fault_of_the_model_that_one_rank_shows_and_no_other_waits_for_names_no_rank() -> None:
    unused = "RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one. This"
    log = [": did not receive grad for rank 0: 2 3", raised(1, unused), closing(10), ended((0, -15), (1, 1), root=1)]
    report = diagnose("\n".join(["[rank0]" + log[0], *log[1:]]))
    assert report.cause is not None
    assert (report.cause.id, report.initiating_rank) == ("ddp.unused_params", None)
    waiting = diagnose("\n".join([raised(0, CLOSED), *log[1:]]))
    assert waiting.initiating_rank == 1
