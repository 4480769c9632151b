"""What was seen of a step: what was allocated and freed when, and by whom."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from remat.probe.simulated.lenient import Assumed


@dataclass(slots=True)
class Allocation:
    """One storage. `category` is learnt later for gradients and optimizer state."""

    bytes: int
    phase: str
    step: int
    module: str
    line: tuple[str, int] | None
    operator: str
    recomputing: bool
    category: str = ""


@dataclass(frozen=True, slots=True)
class Mark:
    """A phase of a step begins at this event."""

    event: int
    phase: str
    step: int


@dataclass(slots=True)
class Log:
    """What was seen: event i > 0 allocates `allocations[i - 1]`, event -i frees it."""

    allocations: list[Allocation] = field(default_factory=list)
    events: list[int] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    flops: dict[str | int, float] = field(default_factory=dict)
    """by phase of the last step; what runs again during backward counts as `recompute`, and what one of several
    optimizers does by its number"""
    kept: list[int] = field(default_factory=list)
    """allocations alive when the last forward ended"""
    assumed: dict[Assumed, int] = field(default_factory=dict)
    streams: dict[int, int] = field(default_factory=dict)
    """of the allocations that were not made on the stream everything else runs on, by their index"""
    lanes: dict[int, int] = field(default_factory=dict)
    """of the allocations that only one of several optimizers made, by their index: its number"""


def of_lane(log: Log, lane: int) -> Log:
    """What would have been seen with this one of the optimizers alone; the allocations are the same objects."""
    events: list[int] = []
    marks: list[Mark] = []
    start = 0
    for mark in (*log.marks, None):
        end = len(log.events) if mark is None else mark.event
        events += (event for event in log.events[start:end] if log.lanes.get(abs(event) - 1, lane) == lane)
        if mark is not None:
            marks.append(replace(mark, event=len(events)))
            start = end
    kept = [index for index in log.kept if log.lanes.get(index, lane) == lane]
    flops: dict[str | int, float] = {phase: count for phase, count in log.flops.items() if not isinstance(phase, int)}
    if lane in log.flops:
        flops["optimizer"] = log.flops[lane]
    return replace(log, events=events, marks=marks, kept=kept, flops=flops, lanes={})
