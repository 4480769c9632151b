"""What one variant of a model takes on a real device: the step itself, under the device's own allocator."""

from __future__ import annotations

import contextlib
import os
import statistics
import sys
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch

from remat.probe.available import available_memory
from remat.probe.checkpoint_calls import checkpoint_calls
from remat.probe.cpu import generator_states
from remat.probe.estimate import track_model
from remat.probe.memory_on_cpu import CpuMeter
from remat.probe.memory_on_cuda import CudaMeter, empty, used_before
from remat.probe.messages import Range
from remat.probe.modules import Modules, watching
from remat.probe.replay import Peaks, settle_categories
from remat.probe.result import Traced, result_of
from remat.probe.step import STEPS, run_steps
from remat.probe.trace import Log, Trace
from remat.probe.variants import apply_variant

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import nn

    from remat.probe.built import Built
    from remat.probe.checkpoint_calls import Policy
    from remat.probe.memory_on_cpu import Memory
    from remat.probe.messages import Device, Limits, Variant, VariantResult

WARM_UP, TIMED = 1, 5
_SAFETY = 1.1
"""of what is expected, before a run on the CPU is refused: a machine that swaps helps nobody"""


class CannotMeasureError(Exception):
    """What stands in the way of measuring, and what to do: reported as a `Failure` of the stage "measure"."""

    def __init__(self, message: str, how: str) -> None:
        super().__init__(message)
        self.how = how


def measure(
    built: Built, variant: Variant, device: Device, limits: Limits, expected: VariantResult | None = None
) -> VariantResult:
    """The real steps of `variant`: two count for memory, as in an estimate; five more, warmed up, for time; two again
    under a trace tell what the memory holds.

    `expected`: the estimate, where there is one; it refuses what would make the machine swap. Raises
    `CannotMeasureError`, and whatever the user's model raises.
    """
    clock = _Clock(limits.seconds)
    place = device_here(device)
    if variant.optimizer == "adamw-8bit":
        raise CannotMeasureError(
            "adamw-8bit stands for the size of its state, and no step of it can be run",
            "estimate it (--mode estimate), or let the target make bitsandbytes' own optimizer",
        )
    _refuse_too_large(expected, place, limits)
    with _no_room(place, clock):
        memory, seconds, traced = _figures(built, variant, place, clock)
    notes = list(memory.notes)
    try:
        traced = _observed(built, variant, place, clock)
    except Exception as error:  # noqa: BLE001 -- the figures stand; only what they hold stays unknown
        notes.append(f"what the memory holds is not known: the step could not be traced ({_first_line(error)})")
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
        assumptions=(*built.assumptions, *notes),
        verified=True,
    )


def device_here(device: Device) -> torch.device:
    """The device to measure on; under torchrun the one of this rank. Raises `CannotMeasureError` if there is none."""
    if device == "cpu":
        return torch.device("cpu")
    if not torch.backends.cuda.is_built():
        raise CannotMeasureError(
            f"measuring on cuda needs a torch built with CUDA; {sys.executable} has torch {torch.__version__}",
            "install a CUDA build of torch in this environment, or estimate: --mode estimate needs no GPU",
        )
    used_before()
    if not torch.cuda.is_available():
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        raise CannotMeasureError(
            f"torch {torch.__version__} finds no GPU"
            + ("" if visible is None else f" (CUDA_VISIBLE_DEVICES is {visible!r})"),
            "see whether `nvidia-smi` lists one and its driver is new enough, or estimate: --mode estimate",
        )
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))


def why_not(device: Device) -> str | None:
    """Why nothing can be measured on `device` here; None where it can. `--mode auto` asks this."""
    try:
        device_here(device)
    except CannotMeasureError as error:
        return str(error)
    return None


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

    def __init__(self, meter: CpuMeter | CudaMeter, place: torch.device, clock: _Clock, idle: Trace) -> None:
        self.memory: Memory | None = None
        self.seconds = [0.0] * (STEPS + WARM_UP + TIMED)
        self._meter, self._place, self._clock, self._idle = meter, place, clock, idle
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


def _figures(
    built: Built, variant: Variant, place: torch.device, clock: _Clock
) -> tuple[Memory, tuple[float, ...], Traced]:
    """Memory and times, with nothing in the way of the step."""
    meter = CpuMeter() if place.type == "cpu" else CudaMeter(place)
    meter.model_comes()
    model, policy = _made(built, variant, place)
    meter.model_is_there(model)
    idle, modules = Trace(), Modules(model)
    recorder = _Recorder(meter, place, clock, idle)
    steps = STEPS + WARM_UP + TIMED
    with checkpoint_calls(idle, modules, policy) as calls:
        run_steps(built, variant, model, recorder, steps=steps, device=place)
    recorder.pause()
    if recorder.memory is None:
        raise AssertionError("the loop ran fewer steps than it was asked for")
    return recorder.memory, tuple(recorder.seconds[-TIMED:]), Traced(Log(), modules, tuple(calls))


def _observed(built: Built, variant: Variant, place: torch.device, clock: _Clock) -> Traced:
    """The same steps once more, each storage noted: slower, and blind for what kernels take inside."""
    clock.stage = "the steps that are traced"
    clock.check()
    if place.type == "cuda":
        empty(place)
    trace = Trace(real_on=place.type)
    model, policy = _made(built, variant, place)
    modules = Modules(model)
    with contextlib.ExitStack() as world:
        track_model(model, trace)
        world.enter_context(generator_states(trace))
        calls = world.enter_context(checkpoint_calls(trace, modules, policy))
        world.enter_context(watching(trace, modules))
        world.enter_context(trace)
        run_steps(built, variant, model, trace, device=place)
    settle_categories(trace.log)
    return Traced(trace.log, modules, tuple(calls))


def _made(built: Built, variant: Variant, place: torch.device) -> tuple[nn.Module, Policy]:
    torch.manual_seed(0)
    model = built.make_model()
    if built.training:
        model.train()
    model, policy = apply_variant(model, variant)
    return (model if place.type == "cpu" else model.to(place)), policy


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


# ---- refusing


def _refuse_too_large(expected: VariantResult | None, place: torch.device, limits: Limits) -> None:
    """On a GPU only the host's part is looked at: running out of the GPU's memory harms nobody, and is an answer."""
    if expected is None:
        return
    needed = expected.allocated_bytes if place.type == "cpu" else expected.by_category.get("parameters", 0)
    there = available_memory(limits.memory_bytes)
    if there is not None and needed * _SAFETY > there:
        what = "the steps" if place.type == "cpu" else "the weights, before they go to the GPU,"
        raise CannotMeasureError(
            f"{what} are expected to need {_gib(needed)}; {_gib(there)} are free here",
            "ask for a smaller --batch or --seq, free some memory, or estimate: --mode estimate",
        )


@contextlib.contextmanager
def _no_room(place: torch.device, clock: _Clock) -> Iterator[None]:
    """Says of a step that ran out of memory where it was, what it had and what was asked."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not _is_out_of_memory(error):
            raise
        had = ""
        if place.type == "cuda":
            free, total = torch.cuda.mem_get_info(place)
            peak = torch.cuda.max_memory_allocated(place)
            had = f" with {_gib(peak)} allocated, of {_gib(total)} on the GPU ({_gib(free)} free now)"
        raise CannotMeasureError(
            f"{clock.stage} ran out of memory{had}: {_first_line(error)}",
            "ask for a smaller --batch or --seq or for --checkpointing all, or estimate: --mode estimate",
        ) from error


def _is_out_of_memory(error: BaseException) -> bool:
    if isinstance(error, MemoryError):
        return True
    return type(error).__name__ == "OutOfMemoryError" or "can't allocate memory" in str(error)


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]


def _gib(size: float) -> str:
    return f"{size / 2**30:.2f} GiB"
