"""Files that a run leaves behind, as the lines of one run: error files, attempts, dumps of the flight recorder."""

from __future__ import annotations

import json
import os
import pickle
from typing import TYPE_CHECKING

from remat.diagnose.diagnose import diagnose
from remat.logs import Joined, files_of

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from remat.diagnose.report import Report

TRACEBACK = 'Traceback (most recent call last):\n  File "/home/dev/fit.py", line {}, in main\n    step()\n{}\n'


def written(folder: Path, name: str, content: str | bytes) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def error_file(traceback: str, seconds: int) -> str:
    about = {"py_callstack": traceback, "timestamp": str(seconds)}
    return json.dumps({"message": {"message": traceback.splitlines()[-1], "extraInfo": about}})


def call(seq: int, name: str, *, done: bool, size: int = 4) -> dict[str, object]:
    torch = {"name": "all_reduce", "filename": "/venv/torch/distributed/distributed_c10d.py", "line": 3245}
    ours = {"name": "step", "filename": "/home/dev/fit.py", "line": 40 + seq}
    return {
        "frames": [torch, ours], "record_id": seq, "pg_id": 0, "process_group": ("0", "default_pg"),
        "collective_seq_id": seq, "p2p_seq_id": 0, "op_id": seq, "profiling_name": f"nccl:{name}",
        "input_sizes": [[size, 4]], "input_dtypes": ["Float"], "state": "completed" if done else "scheduled",
        "retired": done, "is_p2p": False,
    }  # fmt: skip


def dump(calls: list[dict[str, object]]) -> dict[str, object]:
    last, done = len(calls), sum(bool(one["retired"]) for one in calls)
    status = {"last_enqueued_collective": last, "last_started_collective": done, "last_completed_collective": done}
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}}
    return {"version": "2.10", "pg_config": config, "pg_status": {"0": status}, "entries": calls}


def diagnosed(folder: Path) -> Report:
    return diagnose(Joined(files_of(str(folder))))


def test_error_files_give_the_order_that_the_ranks_failed_in(tmp_path: Path) -> None:
    for rank, error, at in ((0, "KeyError: 'a'", 1700000009), (1, "IndexError: x", 1700000003)):
        place = f"run_x/attempt_0/{rank}"
        written(tmp_path, f"{place}/stderr.log", TRACEBACK.format(9, error))
        written(tmp_path, f"{place}/error.json", error_file(TRACEBACK.format(9, error), at))
    report = diagnosed(tmp_path)
    assert report.initiating_rank == 1
    assert report.cause is not None
    assert "IndexError" in report.cause.summary


def test_error_files_of_the_same_second_give_no_order(tmp_path: Path) -> None:
    for rank, error in ((0, "KeyError: 'a'"), (1, "IndexError: x")):
        written(tmp_path, f"attempt_0/{rank}/error.json", error_file(TRACEBACK.format(9, error), 1700000003))
    report = diagnosed(tmp_path)
    assert report.cause is not None
    assert (report.cause.id, report.initiating_rank) == ("ambiguous.concurrent_failures", None)


def test_the_first_attempt_began_it(tmp_path: Path) -> None:
    written(tmp_path, "attempt_0/1/stderr.log", TRACEBACK.format(9, "ValueError: bad label"))
    written(tmp_path, "attempt_0/0/stderr.log", "[rank0] step 1\n")
    written(tmp_path, "attempt_1/0/stderr.log", TRACEBACK.format(3, "OSError: [Errno 98] Address already in use"))
    report = diagnosed(tmp_path)
    assert report.cause is not None
    assert (report.cause.id, report.initiating_rank) == ("code.user_exception", 1)
    assert any("later attempt" in claim.summary for claim in report.also)


def test_an_error_file_that_is_no_json_is_read_as_a_text(tmp_path: Path) -> None:
    for content in (
        TRACEBACK.format(9, "ValueError: no"),
        json.dumps({"message": TRACEBACK.format(9, "ValueError: no")}),
    ):
        written(tmp_path, "error.json", content)
        assert diagnosed(tmp_path).failed


def test_recorders_show_the_rank_that_is_behind(tmp_path: Path) -> None:
    for rank in range(4):
        calls = [call(seq, "all_reduce", done=seq < 3) for seq in range(1, 3 if rank == 2 else 5)]
        written(tmp_path, f"nccl_trace_rank_{rank}", pickle.dumps(dump(calls)))
    report = diagnosed(tmp_path)
    assert report.cause is not None
    found = report.cause.id, report.initiating_rank, [one.rank for one in report.collateral]
    assert found == ("nccl.timeout_rank_absent", 2, [0, 1, 3])
    assert "collective 3 (nccl:all_reduce)" in report.cause.summary
    assert 'File "/home/dev/fit.py", line 42' in report.cause.summary


def test_recorders_show_the_rank_that_is_elsewhere_also_as_json(tmp_path: Path) -> None:
    for rank in range(4):
        calls = [call(1, "all_reduce", done=True), call(2, "broadcast" if rank == 1 else "all_reduce", done=False)]
        written(tmp_path, f"trace_rank_{rank}.json", json.dumps(dump(calls)))
    report = diagnosed(tmp_path)
    assert report.cause is not None
    assert (report.cause.id, report.initiating_rank) == ("nccl.mismatched_collective", 1)


def test_two_recorders_on_other_sizes_name_nobody(tmp_path: Path) -> None:
    for rank in range(2):
        written(tmp_path, f"nccl_trace_rank_{rank}", pickle.dumps(dump([call(1, "all_reduce", done=False, size=rank)])))
    report = diagnosed(tmp_path)
    assert report.cause is not None
    assert (report.cause.id, report.initiating_rank) == ("nccl.mismatched_collective", None)
    assert report.missing


def test_recorders_of_a_run_that_went_well_are_no_failure(tmp_path: Path) -> None:
    for rank in range(3):
        written(tmp_path, f"nccl_trace_rank_{rank}", pickle.dumps(dump([call(1, "all_reduce", done=True)])))
    assert not diagnosed(tmp_path).failed


class Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("made_by_a_pickle",)


def test_a_dump_runs_nothing_and_a_damaged_one_says_so(tmp_path: Path) -> None:
    for content in (pickle.dumps({"entries": [Evil()]}), b"\x80\x04junk", b"{", b"", json.dumps([1]).encode()):
        written(tmp_path, "nccl_trace_rank_0", content)
        assert [*Joined(files_of(str(tmp_path)))] == [
            "[rank0]: flight recorder of rank 0: the dump cannot be read\n",
        ]
    assert not os.path.exists("made_by_a_pickle")  # noqa: PTH110


def test_a_dump_of_odd_values_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    odd = {
        "entries": [{"process_group": None, "frames": [3], "input_sizes": {"a": 1}}, 7],
        "pg_config": 3,
        "pg_status": [],
    }
    written(tmp_path, "nccl_trace_rank_0", pickle.dumps(odd))
    assert not diagnosed(tmp_path).failed


def test_a_dump_whose_values_make_no_sense_neither_raises_nor_hangs(tmp_path: Path) -> None:
    shared: list[object] = [1]
    for _ in range(60):
        shared = [shared, shared]
    odd: tuple[dict[str, object], ...] = (
        {"input_sizes": b"x"},
        {"input_sizes": shared},
        {"profiling_name": shared, "state": shared, "process_group": [shared]},
        {"pg_id": shared, "frames": [{"filename": shared, "name": shared}]},
        {"collective_seq_id": "\u00b2"},
        {"collective_seq_id": "--5"},
        {"collective_seq_id": 10**5000},
    )
    for values in odd:
        written(tmp_path, "nccl_trace_rank_0", pickle.dumps(dump([call(1, "all_reduce", done=True) | values])))
        assert not diagnosed(tmp_path).failed
    written(tmp_path, "nccl_trace_rank_0", pickle.dumps({"entries": [{1: 2, "process_group": ["a"]}], "pg_config": {}}))
    assert not diagnosed(tmp_path).failed


def test_a_file_name_in_a_dump_adds_no_line(tmp_path: Path) -> None:
    frame = {"filename": 'a"\nTraceback (most recent call last):\nValueError: forged', "line": 1, "name": "f"}
    written(tmp_path, "nccl_trace_rank_0", pickle.dumps(dump([call(1, "all_reduce", done=True) | {"frames": [frame]}])))
    assert not diagnosed(tmp_path).failed
    assert len([*Joined(files_of(str(tmp_path)))]) == 2


def test_data_and_environments_are_no_logs(tmp_path: Path) -> None:
    logs = ["a.txt", "b.jsonl", "run/attempt_0/0/stdout.log", "run/train_log.txt", "slurm/1.txt", "x/run.out"]
    others = [".venv/lib/a.log", ".git/a.log", "env/pyvenv.cfg", "env/a.log", "data/train.jsonl", "data/dialog.txt"]
    for name in logs + others:
        written(tmp_path, name, "step 1\n")
    assert sorted(os.path.relpath(path, tmp_path) for path in files_of(str(tmp_path))) == logs


def test_of_a_folder_with_too_many_files_what_is_missed_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("remat.logs._MOST_ENTRIES", 3)
    for name in ("a.log", "b/1.log", "b/2.log", "b/3.log"):
        written(tmp_path, name, "step 1\n")
    told: list[str] = []
    assert files_of(str(tmp_path), told.append) == [str(tmp_path / "a.log")]
    assert "only the first 3 files" in told[0]


def test_folders_of_two_hosts_name_no_rank_that_both_have(tmp_path: Path) -> None:
    closed = (
        "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]:39"
    )
    for host, error in (("nodeA", closed), ("nodeB", "KeyError: 'q_proj'")):
        written(tmp_path, f"{host}/none_x/attempt_0/0/stderr.log", TRACEBACK.format(9, error))
        written(tmp_path, f"{host}/none_x/attempt_0/1/stdout.log", "step 1 loss 2.0\n")
    report = diagnosed(tmp_path)
    assert report.cause is not None
    assert (report.cause.id, report.initiating_rank) == ("code.user_exception", None)
    assert "ank 0" not in report.cause.summary
    assert [one.rank for one in report.collateral] == []


def test_the_first_attempt_of_every_host_comes_before_the_second_of_any(tmp_path: Path) -> None:
    for attempt in (0, 1):
        for host in ("a", "b"):
            written(tmp_path, f"{host}/none_x/attempt_{attempt}/0/stderr.log", "step 1\n")
    found = [os.path.relpath(path, tmp_path) for path in files_of(str(tmp_path))]
    assert [path[0] + path.split("/")[2][-1] for path in found] == ["a0", "b0", "a1", "b1"]
