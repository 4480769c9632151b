"""A memory snapshot that a real run recorded (`torch.cuda.memory._dump_snapshot`), as a timeline to draw."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from remat.probe.messages import Mark, Timeline
from remat.probe.plain_pickle import NotPlainError, loads

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from remat.probe.plain_pickle import Plain

BEFORE = "before recording"
_POINTS = 400
_LARGEST = 256 * 1024 * 1024  # bytes of a file; in memory it takes many times as much
_OPTIMIZER = ("torch/optim/", "torch\\optim\\")
_BACKWARD = ("_engine_run_backward", "backward")
_FORWARD = ("_call_impl", "forward")


class NoSnapshotError(ValueError):
    """The file is no memory snapshot, or one without a recorded history; the text says what to do."""


def read_snapshot(path: Path) -> Timeline:
    """Raises NoSnapshotError, and OSError. Nothing in the file is run."""
    size = path.stat().st_size
    if size > _LARGEST:
        raise NoSnapshotError(
            f"{path.name} has {size / 2**20:.0f} MiB, and snapshots of up to {_LARGEST // 2**20} are opened: record "
            "fewer steps, or give torch.cuda.memory._record_memory_history(max_entries=100_000)"
        )
    try:
        data = loads(path.read_bytes())
    except NotPlainError as error:
        raise NoSnapshotError(f"{path.name} is no memory snapshot: {error}") from error
    return timeline_of(data, path.name)


def timeline_of(snapshot: Plain, name: str) -> Timeline:
    """The device with the longest history; sizes as they were asked for, without the allocator's rounding."""
    traces = _list(snapshot, "device_traces")
    device = max(range(len(traces)), key=lambda index: len(_entries(traces[index])), default=None)
    entries = [] if device is None else _entries(traces[device])
    if device is None or not entries:
        raise NoSnapshotError(
            f"{name} holds no history of allocations: call torch.cuda.memory._record_memory_history() before the "
            "steps, then torch.cuda.memory._dump_snapshot(path)"
        )
    events, before = _events(entries, _active(snapshot, device))
    return _drawn(events, before, _phases(snapshot))


@dataclass(frozen=True, slots=True)
class _Event:
    """Bytes taken, or below zero given back."""

    bytes: int
    category: str
    place: str
    time: int


def _events(entries: list[dict[str, Plain]], at_end: dict[int, int]) -> tuple[list[_Event], int]:
    """The events, and what was alive before the first: freed without having been taken, or alive in the end."""
    taken: dict[int, tuple[int, str]] = {}
    found: list[_Event] = []
    before = 0
    for entry in entries:
        action, address, size = entry.get("action"), _int(entry, "addr"), _int(entry, "size")
        if action == "alloc":
            category = _category(entry)
            taken[address] = (size, category)
            found.append(_Event(size, category, _place(entry), _int(entry, "time_us")))
        elif action in {"free_completed", "free"}:
            known = taken.pop(address, None)
            before += 0 if known else size
            size, category = known or (size, BEFORE)
            found.append(_Event(-size, category, _place(entry), _int(entry, "time_us")))
    return found, before + sum(size for address, size in at_end.items() if address not in taken)


@dataclass(slots=True)
class _Drawing:
    """The timeline while it is made: of each stretch of events the moment where most is alive."""

    points: list[tuple[int, ...]] = field(default_factory=list)
    at: list[int] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    best: tuple[int, int, tuple[int, ...], str] | None = None

    def see(self, index: int, now: dict[str, int], place: str) -> None:
        total = sum(now.values())
        if self.best is None or total > self.best[0]:
            self.best = (total, index, tuple(now.values()), place)

    def close(self) -> None:
        if self.best is not None:
            self.points.append(self.best[2])
            self.at.append(self.best[1])
            self.places.append(self.best[3])
            self.best = None


def _drawn(events: list[_Event], before: int, phases: list[tuple[int, str]]) -> Timeline:
    categories = list(dict.fromkeys([BEFORE, *(event.category for event in events)]))
    now = dict.fromkeys(categories, 0)
    now[BEFORE] = before
    drawing = _Drawing()
    stretch = max(1, len(events) // _POINTS)
    for index, event in enumerate(events):
        while phases and event.time >= phases[0][0]:
            drawing.close()
            drawing.marks.append(Mark(len(drawing.points), phases.pop(0)[1]))
        now[event.category] += event.bytes
        drawing.see(index, now, event.place)
        if (index + 1) % stretch == 0 or index + 1 == len(events):
            drawing.close()
    marks = tuple(mark for mark in drawing.marks if mark.point < len(drawing.points))
    totals = [sum(point) for point in drawing.points]
    peak = totals.index(max(totals, default=0)) if totals else 0
    return Timeline(tuple(categories), tuple(drawing.points), tuple(drawing.at), tuple(drawing.places), marks, peak)


# ---- what the stacks tell


def _category(entry: dict[str, Plain]) -> str:
    """The category that the file gives; else in which part of the step it was made, as far as the stack shows it."""
    given = entry.get("category")
    if isinstance(given, str) and given:
        return given
    frames = list(_frames(entry))
    if any(part in filename for filename, _, _ in frames for part in _OPTIMIZER):
        return "made in the optimizer"
    names = {name for _, _, name in frames}
    if not names.isdisjoint(_BACKWARD):
        return "made in backward"
    if not names.isdisjoint(_FORWARD):
        return "made in forward"
    return "made elsewhere" if frames else "made without a Python stack"


def _place(entry: dict[str, Plain]) -> str:
    """The innermost line outside torch."""
    for filename, line, _ in _frames(entry):
        if line and "/torch/" not in filename and "\\torch\\" not in filename and not filename.startswith("<"):
            return f"{filename}:{line}"
    return ""


def _frames(entry: dict[str, Plain]) -> Iterator[tuple[str, int, str]]:
    frames = entry.get("frames")
    for frame in frames if isinstance(frames, list) else ():
        if isinstance(frame, dict):
            yield str(frame.get("filename", "")), _int(frame, "line"), str(frame.get("name", ""))


# ---- what the file holds


def _active(snapshot: Plain, device: int) -> dict[int, int]:
    """Blocks in use when the snapshot was taken: address and size asked for."""
    found = {}
    for segment in _list(snapshot, "segments"):
        if not isinstance(segment, dict) or segment.get("device", 0) != device:
            continue
        address = _int(segment, "address")
        for block in _list(segment, "blocks"):
            if isinstance(block, dict):
                if block.get("state") == "active_allocated":
                    found[address] = _int(block, "requested_size") or _int(block, "size")
                address += _int(block, "size")
    return found


def _phases(snapshot: Plain) -> list[tuple[int, str]]:
    found = [
        (_int(item, "time_us"), str(item.get("name", "")))
        for item in (_list(snapshot, "external_annotations") if "external_annotations" in _keys(snapshot) else ())
        if isinstance(item, dict) and item.get("stage") == "START"
    ]
    return sorted(found)


def _keys(value: Plain) -> set[str]:
    return set(value) if isinstance(value, dict) else set()


def _list(value: Plain, key: str) -> list[Plain]:
    found = value.get(key) if isinstance(value, dict) else None
    if not isinstance(found, list):
        raise NoSnapshotError(f"expected the dictionary of torch.cuda.memory._snapshot() with a list {key!r}")
    return found


def _entries(trace: Plain) -> list[dict[str, Plain]]:
    return [entry for entry in trace if isinstance(entry, dict)] if isinstance(trace, list) else []


def _int(entry: dict[str, Plain], key: str) -> int:
    value = entry.get(key, 0)
    return value if isinstance(value, int) else 0
