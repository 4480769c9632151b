"""The log of a step, replayed: what is alive when, by category, and what an allocator makes of it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from remat.probe.messages import Mark, PhasePeak, Timeline
from remat.probe.simulated.allocator import CachingAllocator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from remat.probe.simulated.log import Log

CATEGORIES = (
    "parameters", "gradients", "optimizer", "activations", "recomputed", "temporaries", "inputs", "buffers",
    "communication", "workspaces", "elsewhere",
)  # fmt: skip
PHASES = ("load", "data", "forward", "backward", "optimizer")
_POINTS = 400
"""of a timeline: as many as a wide chart has pixels to show"""


@dataclass(frozen=True, slots=True)
class Peaks:
    """What the allocator had handed out and taken, at most."""

    allocated: int
    reserved: int | None
    event: int
    """the peak comes with this event"""
    phase: str
    phases: tuple[PhasePeak, ...]


def settle_categories(log: Log) -> None:
    """Gives each allocation that nothing claimed its category by when it was made and how long it lived."""
    kept = set(log.kept)
    for index, allocation in enumerate(log.allocations):
        if allocation.category:
            continue
        if allocation.recomputing:
            allocation.category = "recomputed"
        elif index in kept or (allocation.phase == "forward" and allocation.step == 0):
            allocation.category = "activations"
        else:
            allocation.category = "temporaries"


def peaks_for_cpu(log: Log) -> Peaks:
    """The CPU's allocator hands out what is asked for and takes nothing in advance."""
    sizes = [allocation.bytes for allocation in log.allocations]
    alive = 0

    def step(event: int) -> int:
        nonlocal alive
        alive += sizes[event - 1] if event > 0 else -sizes[-event - 1]
        return alive

    return _peaks(log, step, lambda: None)


def peaks_for_cuda(log: Log) -> Peaks:
    """CUDA's caching allocator rounds, and keeps what it took."""
    sizes = [allocation.bytes for allocation in log.allocations]
    allocator, streams = CachingAllocator(), log.streams

    def step(event: int) -> int:
        if event > 0:
            allocator.allocate(event, sizes[event - 1], streams.get(event - 1, 0))
        else:
            allocator.free(-event)
        return allocator.allocated

    return _peaks(log, step, lambda: allocator.peak_reserved)


def _peaks(log: Log, step: Callable[[int], int], reserved: Callable[[], int | None]) -> Peaks:
    last = log.marks[-1].step if log.marks else 0
    phases: dict[str, int] = {}
    best, best_event, best_phase, alive = -1, 0, "load", 0
    for phase, number, start, end in _spans(log):
        counts = number == last or phase == "load"
        highest = alive
        for index in range(start, end):
            alive = step(log.events[index])
            highest = max(highest, alive)
            if alive > best:
                best, best_event, best_phase = alive, index, phase
        if counts:
            phases[phase] = max(phases.get(phase, 0), highest)
    named = tuple(PhasePeak(phase, phases[phase]) for phase in PHASES if phase in phases)
    return Peaks(best, reserved(), best_event, best_phase, named)


def _spans(log: Log) -> Iterator[tuple[str, int, int, int]]:
    """(phase, step, first event, event after the last)."""
    yield "load", 0, 0, log.marks[0].event if log.marks else len(log.events)
    for index, mark in enumerate(log.marks):
        end = log.marks[index + 1].event if index + 1 < len(log.marks) else len(log.events)
        yield mark.phase, mark.step, mark.event, end


def alive_at(log: Log, event: int) -> dict[str, int]:
    """Bytes alive by category after `event` (an index of `log.events`)."""
    total: dict[str, int] = defaultdict(int)
    for number in log.events[: event + 1]:
        allocation = log.allocations[abs(number) - 1]
        total[allocation.category] += allocation.bytes if number > 0 else -allocation.bytes
    return {name: total[name] for name in CATEGORIES if total[name] > 0}


def timeline(log: Log, peak_event: int) -> Timeline:
    """At most a few hundred points: in each stretch the one where most is alive, and where phases begin."""
    marks = {mark.event: mark.phase for mark in log.marks}
    stretch = max(1, len(log.events) // _POINTS)
    points: list[tuple[int, ...]] = []
    at: list[int] = []
    modules: list[str] = []
    drawn: list[Mark] = []
    now = dict.fromkeys(CATEGORIES, 0)
    best: tuple[int, int, tuple[int, ...], str] | None = None
    peak = 0
    for index, number in enumerate(log.events):
        allocation = log.allocations[abs(number) - 1]
        now[allocation.category] += allocation.bytes if number > 0 else -allocation.bytes
        total = sum(now.values())
        if best is None or total > best[0]:
            best = (total, index, tuple(now.values()), allocation.module)
        if index in marks:
            drawn.append(Mark(len(points), marks[index]))
        if (index + 1) % stretch == 0 or index == peak_event or index + 1 in marks or index + 1 == len(log.events):
            points.append(best[2] if index != peak_event else tuple(now.values()))
            at.append(best[1] if index != peak_event else index)
            modules.append(best[3])
            peak = len(points) - 1 if index == peak_event else peak
            best = None
    return Timeline(CATEGORIES, tuple(points), tuple(at), tuple(modules), tuple(drawn), peak)
