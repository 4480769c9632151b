"""The memory of a real run on the CPU, from the events of torch's profiler: each allocation, kernels' own included."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch._C._profiler import _EventType
from torch.profiler import ProfilerActivity, profile, record_function

from remat.probe.messages import PhasePeak
from remat.probe.ranks.shards import local_of
from remat.probe.ranks.spoken import is_rank
from remat.probe.ranks.wrapped import bucket_bytes
from remat.probe.simulated.replay import PHASES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import nn
    from torch._C._autograd import _ProfilerResult
    from torch._C._profiler import _ProfilerEvent

    from remat.probe.messages import Range

_MARK = "remat probe: "
_THERE = "the model is there"


@dataclass(frozen=True, slots=True)
class Memory:
    """What the device's allocator said of the steps."""

    allocated: int
    reserved: int | None
    process: Range | None
    peak_phase: str
    phases: tuple[PhasePeak, ...]
    notes: tuple[str, ...] = ()


class CpuMeter:
    """Begin it before the model is made, tell it each phase, and stop it after the steps that count."""

    def __init__(self) -> None:
        self.place = torch.device("cpu")
        self._profile = profile(activities=[ProfilerActivity.CPU], profile_memory=True)
        self._own = 0

    def model_comes(self) -> None:
        """What making the model takes and gives back doesn't count. Yet of a rank's it must be seen: what
        DistributedDataParallel takes then it gives back later, which the profiler tells only of what it saw come.
        """
        if is_rank():
            self._profile.__enter__()

    def model_is_there(self, model: nn.Module) -> None:
        self._own = own_bytes(model) + bucket_bytes(model)
        if not is_rank():
            self._profile.__enter__()
            return
        gc.collect()
        with record_function(f"{_MARK}{_THERE}"):
            pass

    def begin(self, phase: str, step: int) -> None:
        with record_function(f"{_MARK}{step} {phase}"):
            pass

    def stop(self) -> Memory:
        self._profile.__exit__(None, None, None)
        return _summed(self._own, self._events())

    def _events(self) -> Iterator[tuple[str, int]]:
        """(phase that begins, 0) or (empty text, bytes allocated or, below zero, freed), as they came."""
        events = self._all_events()
        if is_rank():
            for mark, _ in events:
                if mark == _THERE:
                    break
        yield from events

    def _all_events(self) -> Iterator[tuple[str, int]]:
        """A free counts where its allocation was seen: what an earlier measurement left is nothing of this step."""
        seen: set[int] = set()
        for event in sorted(_flat(self._profile.profiler.kineto_results), key=lambda event: event.start_time_ns):
            if event.typed[0] == _EventType.Allocation:
                block = event.typed[1]
                if block.alloc_size > 0:
                    seen.add(block.ptr)
                if block.ptr in seen:
                    yield "", block.alloc_size
            elif event.name.startswith(_MARK):
                yield event.name.removeprefix(_MARK), 0


def _flat(results: _ProfilerResult) -> Iterator[_ProfilerEvent]:
    """Every event of the tree, calls as deep as they come."""
    left = list(results.experimental_event_tree())
    while left:
        event = left.pop()
        left.extend(event.children)
        yield event


def own_bytes(model: nn.Module) -> int:
    """Bytes of the storages of parameters and buffers, shared ones once."""
    storages = [local_of(tensor).untyped_storage() for tensor in (*model.parameters(), *model.buffers())]
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


def _summed(own: int, events: Iterator[tuple[str, int]]) -> Memory:
    alive = most = own
    step, phase, peak_phase = "0", "load", "load"
    peaks = {(step, phase): own}
    for mark, size in events:
        if mark:
            step, _, phase = mark.partition(" ")
        alive += size
        peaks[step, phase] = max(peaks.get((step, phase), 0), alive)
        if alive > most:
            most, peak_phase = alive, phase
    last = {name: size for (number, name), size in peaks.items() if number == step or name == "load"}
    phases = tuple(PhasePeak(name, last[name]) for name in PHASES if name in last)
    return Memory(most, None, None, peak_phase, phases)
