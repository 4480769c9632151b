"""The predicted steps in the format of `torch.cuda.memory._snapshot()`: https://pytorch.org/memory_viz opens them.

The page reads pickles of protocol 2 to 4 that hold dictionaries, lists, tuples, texts and numbers; where entries have a
category, one of them must be called "unknown" (torch/utils/viz/MemoryViz.js, `unpickle` and `annotate_snapshot`).
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Literal, TypedDict

from remat.probe.simulated.allocator import CachingAllocator

if TYPE_CHECKING:
    from pathlib import Path

    from remat.probe.messages import Device
    from remat.probe.simulated.log import Allocation, Log

_BASE = 0x7F00_0000_0000
"""addresses look like a GPU's, and stay exact in the page's numbers (below 2**53)"""
_PROTOCOL = 4
_GRANULE = 512
"""addresses of the CPU's storages are this far apart at least; their sizes are exact"""


class Frame(TypedDict):
    filename: str
    line: int
    name: str


class Entry(TypedDict):
    action: str
    addr: int
    size: int
    stream: int
    time_us: int
    frames: list[Frame]
    category: str


class Block(TypedDict):
    address: int
    size: int
    requested_size: int
    state: Literal["active_allocated", "inactive"]
    frames: list[Frame]


class Segment(TypedDict):
    device: int
    address: int
    total_size: int
    allocated_size: int
    active_size: int
    requested_size: int
    stream: int
    segment_type: str
    segment_pool_id: tuple[int, int]
    is_expandable: bool
    frames: list[Frame]
    blocks: list[Block]


class Annotation(TypedDict):
    stage: str
    name: str
    device: int
    time_us: int


class Snapshot(TypedDict):
    segments: list[Segment]
    device_traces: list[list[Entry]]
    external_annotations: list[Annotation]
    remat: str


def snapshot_of(log: Log, device: Device, kind: Literal["estimated", "measured"]) -> Snapshot:
    """`log` has its categories settled. The time of an entry is its number: an estimate knows no seconds."""
    entries, segments = _for_cuda(log) if device == "cuda" else _for_cpu(log)
    return {
        "segments": segments,
        "device_traces": [entries],
        "external_annotations": [
            {"stage": "START", "name": f"{mark.phase} of step {mark.step + 1}", "device": 0, "time_us": mark.event}
            for mark in log.marks
        ],
        "remat": f"{kind} by remat probe, for {device}",
    }


def write_snapshot(snapshot: Snapshot, path: Path) -> None:
    path.write_bytes(pickle.dumps(snapshot, protocol=_PROTOCOL))


def _for_cuda(log: Log) -> tuple[list[Entry], list[Segment]]:
    allocator = CachingAllocator()
    entries: list[Entry] = []
    for time, number in enumerate(log.events):
        allocation = log.allocations[abs(number) - 1]
        known = len(allocator.segments)
        if number > 0:
            allocator.allocate(number, allocation.bytes, log.streams.get(number - 1, 0))
            entries += [
                _entry("segment_alloc", address, size, time, [], "unknown")
                for address, size in allocator.segments[known:]
            ]
        address = allocator.address(abs(number))
        if address is not None:
            entries += _entries(number, allocation, address, time)
        if number < 0:
            allocator.free(-number)
    return entries, _segments(log, allocator)


def _segments(log: Log, allocator: CachingAllocator) -> list[Segment]:
    layout = allocator.layout()
    found = []
    for start, total in allocator.segments:
        inside = [block for block in layout if start <= block[0] < start + total]
        blocks = [_block(address, size, None if n is None else log.allocations[n - 1]) for address, size, n in inside]
        found.append(_segment(start, total, blocks))
    return found


def _for_cpu(log: Log) -> tuple[list[Entry], list[Segment]]:
    """Each storage at an address of its own, in one segment that spans them all while it is alive: malloc has none."""
    entries: list[Entry] = []
    alive: dict[int, int] = {}
    end = 0
    for time, number in enumerate(log.events):
        allocation = log.allocations[abs(number) - 1]
        if allocation.bytes == 0:
            continue
        if number > 0:
            alive[number] = end
            entries.append(_entry("segment_alloc", end, allocation.bytes, time, [], "unknown"))
            entries += _entries(number, allocation, end, time)
            end += (allocation.bytes // _GRANULE + 1) * _GRANULE
        else:
            address = alive.pop(-number)
            entries += _entries(number, allocation, address, time)
            entries.append(_entry("segment_free", address, allocation.bytes, time, [], "unknown"))
    left = [(address, log.allocations[number - 1]) for number, address in alive.items()]
    return entries, [_segment(a, item.bytes, [_block(a, item.bytes, item)]) for a, item in left]


def _entries(number: int, allocation: Allocation, address: int, time: int) -> list[Entry]:
    actions = ("alloc",) if number > 0 else ("free_requested", "free_completed")
    frames = _frames(allocation)
    return [_entry(action, address, allocation.bytes, time, frames, allocation.category) for action in actions]


def _entry(action: str, address: int, size: int, time: int, frames: list[Frame], category: str) -> Entry:
    return {
        "action": action, "addr": _BASE + address, "size": size, "stream": 0, "time_us": time, "frames": frames,
        "category": category or "unknown",
    }  # fmt: skip


def _frames(allocation: Allocation) -> list[Frame]:
    """Operator and line, then the module, then the phase: the innermost first, as torch writes stacks."""
    path, line = allocation.line or (allocation.category or "unknown", 0)
    frames: list[Frame] = [{"filename": path, "line": line, "name": allocation.operator}]
    if allocation.module:
        frames.append({"filename": allocation.module, "line": 0, "name": "forward"})
    phase = "load" if allocation.phase == "load" else f"{allocation.phase} of step {allocation.step + 1}"
    again = ", run again for backward" if allocation.recomputing else ""
    return [*frames, {"filename": "remat probe", "line": 0, "name": phase + again}]


def _block(address: int, size: int, allocation: Allocation | None) -> Block:
    return {
        "address": _BASE + address,
        "size": size,
        "requested_size": 0 if allocation is None else allocation.bytes,
        "state": "inactive" if allocation is None else "active_allocated",
        "frames": [] if allocation is None else _frames(allocation),
    }


def _segment(address: int, total: int, blocks: list[Block]) -> Segment:
    taken = [block for block in blocks if block["state"] == "active_allocated"]
    allocated = sum(block["size"] for block in taken)
    return {
        "device": 0,
        "address": _BASE + address,
        "total_size": total,
        "allocated_size": allocated,
        "active_size": allocated,
        "requested_size": sum(block["requested_size"] for block in taken),
        "stream": 0,
        "segment_type": "small" if total <= 2 * 2**20 else "large",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [],
        "blocks": blocks,
    }
