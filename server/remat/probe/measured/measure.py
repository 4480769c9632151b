"""What one variant of a model takes on a real device: the step itself, under the device's own allocator."""

from __future__ import annotations

import contextlib
import statistics
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch

from remat.probe.libraries import unwrapped
from remat.probe.measured.measurable import (
    CannotMeasureError,
    device_here,
    first_line,
    refuse_stand_ins,
    refuse_too_large,
    reporting_no_room,
)
from remat.probe.measured.memory_on_cpu import CpuMeter
from remat.probe.measured.memory_on_cuda import CudaMeter, empty
from remat.probe.messages import Range
from remat.probe.ranks import measured as ranks
from remat.probe.ranks.training import as_run
from remat.probe.simulated.checkpoint_calls import checkpoint_calls
from remat.probe.simulated.cpu import generator_states
from remat.probe.simulated.estimate import track_model
from remat.probe.simulated.log import Log
from remat.probe.simulated.modules import Modules, watching
from remat.probe.simulated.replay import Peaks, settle_categories
from remat.probe.simulated.result import Traced, result_of
from remat.probe.simulated.step import STEPS, Loop, run_steps
from remat.probe.simulated.trace import Trace
from remat.probe.snapshot import snapshot_of, write_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from torch import nn

    from remat.probe.built import Built
    from remat.probe.measured.memory_on_cpu import Memory
    from remat.probe.messages import Device, Limits, Variant, VariantResult
    from remat.probe.simulated.checkpoint_calls import Policy

WARM_UP, TIMED = 1, 5


def measure(
    built: Built,
    variant: Variant,
    device: Device,
    limits: Limits,
    expected: VariantResult | None = None,
    snapshot: Path | None = None,
) -> VariantResult:
    """The last word of `measure_in_turn`."""
    *_, last = measure_in_turn(built, variant, device, limits, expected, snapshot)
    return last


def measure_in_turn(
    built: Built,
    variant: Variant,
    device: Device,
    limits: Limits,
    expected: VariantResult | None = None,
    snapshot: Path | None = None,
) -> Iterator[VariantResult]:
    """First the figures, then the same with what they consist of.

    The real steps of `variant`: two count for memory, as in an estimate; five more, warmed up, for time; two again
    under a trace tell what the memory holds.

    `expected`: the estimate, where there is one; it refuses what would make the machine swap. `snapshot`: where
    torch's own record of the steps goes; on the CPU, which keeps none, what the trace saw.
    Raises `CannotMeasureError`, and whatever the user's model raises.
    """
    clock = _Clock(limits.seconds)
    place = device_here(device)
    refuse_stand_ins(variant)
    shards = variant.world_size if variant.sharding == "fsdp2" and variant.world_size else 1
    refuse_too_large(expected, place, limits, shards)
    built = ranks.for_ranks(built)
    with ranks.one_rank(variant, place, limits):
        with reporting_no_room(place, lambda: clock.stage):
            memory, seconds, traced = _figures(built, variant, _meter(place, snapshot), clock)
        notes = [*built.assumptions, *ranks.notes(variant, place), *memory.notes]
        yield _told(built, variant, traced, memory, seconds, notes)
        try:
            traced = _observed(built, variant, place, clock)
            if snapshot is not None and place.type == "cpu":
                write_snapshot(snapshot_of(traced.log, "cpu", "measured"), snapshot)
        except Exception as error:  # noqa: BLE001 -- the figures stand; only what they hold stays unknown
            notes.append(f"what the memory holds is not known: the step could not be traced ({first_line(error)})")
    yield _told(built, variant, traced, memory, seconds, notes)


def _told(
    built: Built,
    variant: Variant,
    traced: Traced,
    memory: Memory,
    seconds: tuple[float, ...],
    notes: list[str],
) -> VariantResult:
    """The figures are the allocator's; what they consist of is the trace's, and the rest is what kernels took."""
    event, seen = _highest(traced.log, memory.peak_phase)
    peaks = Peaks(memory.allocated, memory.reserved, event, memory.peak_phase, memory.phases)
    result = result_of(built, variant, traced, peaks, "measured")
    rest = {"workspaces": max(0, memory.allocated - seen)} if traced.log.events else {}
    return replace(
        result,
        process_bytes=memory.process,
        by_category={**result.by_category, **rest},
        step_seconds=statistics.median(seconds),
        step_seconds_range=Range(min(seconds), max(seconds)),
        assumptions=tuple(notes),
        verified=True,
    )


# ---- running


@dataclass(slots=True)
class _Clock:
    """The time limit, and how long steps took."""

    limit: float
    began: float = field(default_factory=time.monotonic)
    stage: str = "making the model"

    def check(self) -> None:
        if time.monotonic() - self.began > self.limit:
            raise CannotMeasureError(
                f"measuring took longer than {self.limit:g} s; it was at: {self.stage}",
                "allow more time, or ask for a smaller --batch or --seq",
            )


class _Recorder:
    """Watches the loop: the memory of the first steps, the time of the last."""

    def __init__(self, meter: CpuMeter | CudaMeter, clock: _Clock, idle: Trace) -> None:
        self.memory: Memory | None = None
        self.seconds = [0.0] * (STEPS + WARM_UP + TIMED)
        self._meter, self._place, self._clock, self._idle = meter, meter.place, clock, idle
        self._since: tuple[int, float] | None = None

    def begin(self, phase: str, step: int) -> None:
        self._clock.check()
        self._clock.stage = f"{phase} of step {step + 1}"
        self._idle.phase = phase
        if step < STEPS:
            self._meter.begin(phase, step)
            return
        if self.memory is None:
            self.memory = self._meter.stop()
        if phase == "data":
            self.pause()
        elif phase == "forward":
            self._since = (step, self._now())

    def pause(self) -> None:
        """Making a batch is no part of a step's time."""
        if self._since is not None:
            step, since = self._since
            self.seconds[step] += self._now() - since
            self._since = None

    def _now(self) -> float:
        if self._place.type == "cuda":
            torch.cuda.synchronize(self._place)
        return time.perf_counter()

    def end_forward(self) -> None: ...

    def track(self, tensor: torch.Tensor, operator: str, category: str) -> None: ...


def _meter(place: torch.device, snapshot: Path | None) -> CpuMeter | CudaMeter:
    return CpuMeter() if place.type == "cpu" else CudaMeter(place, snapshot)


def _figures(
    built: Built, variant: Variant, meter: CpuMeter | CudaMeter, clock: _Clock
) -> tuple[Memory, tuple[float, ...], Traced]:
    """Memory and times, with nothing in the way of the step."""
    place = meter.place
    meter.model_comes()
    model, policy = _made(built, variant, place)
    meter.model_is_there(model)
    idle, modules = Trace(), Modules(unwrapped(model))
    recorder = _Recorder(meter, clock, idle)
    steps = STEPS + WARM_UP + TIMED
    with checkpoint_calls(idle, modules, policy) as calls:
        run_steps(built, as_run(variant), model, recorder, Loop(steps, place))
    recorder.pause()
    if recorder.memory is None:
        raise AssertionError("the loop ran fewer steps than it was asked for")
    with contextlib.suppress(RuntimeError, ValueError, NotImplementedError, AssertionError):
        model.to("meta")  # its names are needed still, its memory is not
    return recorder.memory, tuple(recorder.seconds[-TIMED:]), Traced(Log(), modules, tuple(calls))


def _observed(built: Built, variant: Variant, place: torch.device, clock: _Clock) -> Traced:
    """The same steps once more, each storage noted: slower, and blind for what kernels take inside."""
    clock.stage = "the steps that are traced"
    clock.check()
    if place.type == "cuda":
        empty(place)
    trace = Trace(real_on=place.type)
    with contextlib.ExitStack() as world:
        world.enter_context(ranks.observed(variant, trace))
        model, policy = _made(built, variant, place)
        modules = Modules(unwrapped(model))
        track_model(model, trace)
        ranks.track(model, trace)
        world.enter_context(generator_states(trace))
        calls = world.enter_context(checkpoint_calls(trace, modules, policy))
        world.enter_context(watching(trace, modules))
        world.enter_context(trace)
        run_steps(built, as_run(variant), model, trace, Loop(device=place))
    settle_categories(trace.log)
    return Traced(trace.log, modules, tuple(calls))


def _made(built: Built, variant: Variant, place: torch.device) -> tuple[nn.Module, Policy]:
    torch.manual_seed(0)
    model = built.make_model()
    if built.training:
        model.train()
    model, policy = ranks.applied(model, variant)
    return ranks.placed(model, variant, place), policy


def _highest(log: Log, phase: str) -> tuple[int, int]:
    """(event, bytes) where the trace saw most, in the phase where the allocator did."""
    marks = {mark.event: mark.phase for mark in log.marks}
    now, alive, best, where = "load", 0, -1, 0
    for index, number in enumerate(log.events):
        now = marks.get(index, now)
        alive += log.allocations[abs(number) - 1].bytes * (1 if number > 0 else -1)
        if now == phase and alive > best:
            best, where = alive, index
    return where, max(best, 0)
