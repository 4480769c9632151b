"""The predicted timeline opens in torch's own viewer, and a recorded one is read without running anything of it."""

from __future__ import annotations

import io
import os
import pickle
import pickletools
from functools import cache
from typing import TYPE_CHECKING

import pytest
import torch
from small_models import conv_net, perceptron
from torch.cuda import _memory_viz

from remat.probe.messages import Device, Variant
from remat.probe.plain_pickle import NotPlainError, loads
from remat.probe.recorded import BEFORE, NoSnapshotError, read_snapshot, timeline_of
from remat.probe.simulated.estimate import simulate
from remat.probe.simulated.replay import peaks_for_cpu, peaks_for_cuda
from remat.probe.snapshot import Snapshot, snapshot_of, write_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from remat.probe.built import Built
    from remat.probe.simulated.log import Log

VIEWER = {
    "PROTO", "APPEND", "APPENDS", "LIST", "TUPLE", "NEWFALSE", "NEWTRUE", "NONE", "BINGET", "BININT", "BININT1",
    "BININT2", "EMPTY_DICT", "EMPTY_LIST", "FRAME", "LONG1", "LONG_BINGET", "MARK", "MEMOIZE", "BINPUT",
    "LONG_BINPUT", "SETITEMS", "SETITEM", "DICT", "SHORT_BINUNICODE", "BINUNICODE", "STOP", "EMPTY_TUPLE", "TUPLE1",
    "TUPLE2", "TUPLE3", "BINFLOAT",
}  # fmt: skip
"""the instructions that the page knows (torch/utils/viz/MemoryViz.js, `unpickle`)"""
ALL = Variant("all", checkpointing="all", optimizer="adamw")


@cache
def log_of(make: Callable[[], Built], device: Device) -> Log:
    return simulate(make(), ALL, device).log


@cache
def snapshot(device: Device = "cuda") -> Snapshot:
    return snapshot_of(log_of(perceptron, device), device, "estimated")


@pytest.fixture(params=["cuda", "cpu"])
def predicted(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "predicted.pickle"
    write_snapshot(snapshot(request.param), path)
    return path


def test_torch_s_own_tools_read_it(predicted: Path) -> None:
    data = pickle.loads(predicted.read_bytes())  # noqa: S301 -- written by us
    assert "segments:" in _memory_viz.segsum(data)
    assert "TOTAL MEM" in _memory_viz.trace(data)
    for page in (
        _memory_viz.trace_plot(data),
        _memory_viz.segment_plot(data),
        _memory_viz.trace_plot(data, filter_freed=True),
    ):
        assert "snapshot.pickle" in page
    lines = _memory_viz.memory(data, format_flamegraph=lambda text: text)
    assert "stream_0;active_allocated;" in lines


def test_what_it_says_is_reserved_and_allocated_is_what_the_estimate_says() -> None:
    peaks = peaks_for_cuda(log_of(perceptron, "cuda"))
    entries = snapshot()["device_traces"][0]
    reserved = sum(e["size"] for e in entries if e["action"] == "segment_alloc")
    assert reserved == peaks.reserved
    assert reserved == sum(segment["total_size"] for segment in snapshot()["segments"])


def test_it_holds_only_what_the_page_can_read(predicted: Path) -> None:
    used = {opcode.name for opcode, _, _ in pickletools.genops(predicted.read_bytes())}
    assert used <= VIEWER
    entries = [entry for trace in loads(predicted.read_bytes())["device_traces"] for entry in trace]
    assert "unknown" in {entry["category"] for entry in entries}  # else the page stops with an error
    assert all(0 < entry["addr"] < 2**53 for entry in entries)


def test_no_two_blocks_share_memory_while_both_are_alive(predicted: Path) -> None:
    alive: dict[int, int] = {}
    for entry in loads(predicted.read_bytes())["device_traces"][0]:
        start, end = entry["addr"], entry["addr"] + entry["size"]
        if entry["action"] == "alloc":
            assert not any(start < other + size and other < end for other, size in alive.items())
            alive[start] = entry["size"]
        elif entry["action"] == "free_completed":
            assert alive.pop(start) == entry["size"]


def test_frames_name_the_operator_the_line_the_module_and_the_phase() -> None:
    entries = snapshot()["device_traces"][0]
    inner, outer = (
        next(e["frames"] for e in entries if e["category"] == kind) for kind in ("recomputed", "activations")
    )
    assert inner[0]["name"].startswith("aten::")
    assert inner[-2]["filename"].startswith("layers.")
    assert "run again for backward" in inner[-1]["name"]
    assert outer[0]["filename"].endswith("small_models.py")
    assert outer[-1]["name"] == "forward of step 1"


def test_it_comes_back_as_the_timeline_it_was(predicted: Path) -> None:
    device: Device = "cpu" if "cpu" in str(loads(predicted.read_bytes())["remat"]) else "cuda"
    timeline = read_snapshot(predicted)
    assert sum(timeline.points[timeline.peak]) == peaks_for_cpu(log_of(perceptron, device)).allocated
    assert {"parameters", "recomputed", "optimizer"} <= set(timeline.categories)
    assert [mark.phase for mark in timeline.marks][:3] == ["data of step 1", "forward of step 1", "backward of step 1"]
    assert any(place.partition(":")[0].endswith("small_models.py") for place in timeline.modules)


# ---- a real run's


def frame(filename: str, line: int, name: str) -> dict[str, object]:
    return {"filename": filename, "line": line, "name": name}


TRAIN = frame("/home/me/train.py", 12, "main")
RECORDED = {
    "segments": [
        {"device": 0, "address": 4096, "total_size": 4096, "stream": 0, "blocks": [
            {"size": 1024, "requested_size": 1000, "state": "active_allocated", "frames": []},
            {"size": 3072, "requested_size": 0, "state": "inactive", "frames": []}]},
    ],
    "device_traces": [[
        {"action": "alloc", "addr": 5120, "size": 512, "stream": 0, "time_us": 1, "frames": [
            frame("/x/torch/nn/modules/linear.py", 5, "forward"), TRAIN]},
        {"action": "alloc", "addr": 5632, "size": 256, "stream": 0, "time_us": 2, "frames": []},
        {"action": "free_requested", "addr": 5120, "size": 512, "stream": 0, "time_us": 3, "frames": []},
        {"action": "free_completed", "addr": 5120, "size": 512, "stream": 0, "time_us": 3, "frames": []},
        {"action": "free_completed", "addr": 9000, "size": 64, "stream": 0, "time_us": 4, "frames": []},
        {"action": "alloc", "addr": 7000, "size": 128, "stream": 0, "time_us": 5, "frames": [
            frame("/x/torch/optim/adamw.py", 7, "step"), TRAIN]},
    ], []],
    "allocator_settings": {"garbage_collection_threshold": 0.0, "expandable_segments": False},
    "external_annotations": [],
}  # fmt: skip


def test_a_recorded_run_is_drawn_with_what_was_there_before_and_where_things_were_made() -> None:
    timeline = timeline_of(loads(pickle.dumps(RECORDED)), "run.pickle")
    made = dict(zip(timeline.categories, timeline.points[0], strict=True))
    assert made[BEFORE] == 1000 + 64
    assert made["made in forward"] == 512
    assert timeline.modules[0] == "/home/me/train.py:12"
    assert sum(timeline.points[timeline.peak]) == 1064 + 512 + 256
    last = dict(zip(timeline.categories, timeline.points[-1], strict=True))
    assert last == {
        BEFORE: 1000, "made in forward": 0, "made without a Python stack": 256, "made in the optimizer": 128
    }  # fmt: skip


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_data_comes_back_as_it_was(protocol: int) -> None:
    data = {
        "a": [1, -1, 255, 65536, 2**40, -(2**62), 1.5, None, True, False], "b": {"c": ((), (1,), (1, 2, 3, 4))},
        "long": "x" * 70_000, "again": ["y", "y", "ü\ud800"],
    }  # fmt: skip
    assert loads(pickle.dumps(data, protocol=protocol)) == data


class Runs:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch /tmp/remat-was-here",)


@pytest.mark.parametrize(
    "data",
    [
        pickle.dumps({"segments": Runs(), "device_traces": []}),
        pickle.dumps({"segments": [torch.float32], "device_traces": []}),
        pickle.dumps({1: 2}),
        pickle.dumps({"a": {1, 2}}),
        pickle.dumps({"a": b"bytes"}),
        b"cos\nsystem\n(S'echo'\ntR.",
        b"\x80\x04}\x94r\xff\xff\xff\xffj\xfe\xff\xff\xff.",
        pickle.dumps(RECORDED)[:-40],
        b"",
        b"PK\x03\x04",
        b"]" * 10 + b".",
    ],
)
def test_anything_else_is_refused_and_nothing_of_it_runs(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(NotPlainError):
        loads(data)
    path = tmp_path / "bad.pickle"
    path.write_bytes(data)
    with pytest.raises(NoSnapshotError, match="bad"):
        read_snapshot(path)


@pytest.mark.parametrize("data", [[], {}, {"segments": [], "device_traces": [[], []]}, {"device_traces": 3}, "x"])
def test_a_snapshot_without_a_history_says_how_to_record_one(data: object) -> None:
    with pytest.raises(NoSnapshotError, match=r"expected the dictionary|_record_memory_history"):
        timeline_of(loads(pickle.dumps(data)), "run.pickle")


def test_a_file_too_large_for_the_server_is_refused_unread(tmp_path: Path) -> None:
    file = tmp_path / "huge.pickle"
    with file.open("wb") as sparse:
        sparse.truncate(300 * 2**20)
    with pytest.raises(NoSnapshotError, match=r"huge.pickle has 300 MiB, and snapshots of up to 256 are opened"):
        read_snapshot(file)


def test_a_large_one_is_drawn_in_few_points() -> None:
    buffer = io.BytesIO()
    entry = RECORDED["device_traces"][0][0]
    trace = [
        {**entry, "addr": 512 * n, "action": action} for n in range(5000) for action in ("alloc", "free_completed")
    ]
    pickle.dump({"segments": [], "device_traces": [trace]}, buffer)
    timeline = timeline_of(loads(buffer.getvalue()), "large")
    assert len(timeline.points) <= 1000
    assert {sum(point) for point in timeline.points} <= {0, 512}


def test_the_network_of_convolutions_is_written_too(tmp_path: Path) -> None:
    write_snapshot(snapshot_of(log_of(conv_net, "cuda"), "cuda", "estimated"), tmp_path / "conv.pickle")
    assert read_snapshot(tmp_path / "conv.pickle").points
