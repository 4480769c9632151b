"""The memory of a real run on a GPU: the allocator's statistics, phase by phase, and the driver's view beside them."""

from __future__ import annotations

import functools
import gc
import os
import subprocess
from typing import TYPE_CHECKING

import torch

from remat.probe.calibration import Constants
from remat.probe.measured.memory_on_cpu import Memory
from remat.probe.messages import PhasePeak, Range
from remat.probe.simulated.replay import PHASES

if TYPE_CHECKING:
    from pathlib import Path

    from torch import nn

MIB = 2**20
_ENTRIES = 1_000_000
"""of a record: far more than the steps of most models make"""


class CudaMeter:
    """Begin it before the model is made, tell it each phase, and stop it after the steps that count."""

    def __init__(self, place: torch.device, snapshot: Path | None = None) -> None:
        """`snapshot`: where torch's own record of the steps goes."""
        self.place = place
        self._snapshot = snapshot
        self._now = (0, "load")
        self._peaks: dict[tuple[int, str], int] = {}
        self._allocated = self._reserved = self._before = 0
        self._peak_phase = "load"

    def model_comes(self) -> None:
        torch.cuda.set_device(self.place)  # under torchrun the default would be another rank's
        empty(self.place)
        torch.cuda.reset_peak_memory_stats(self.place)
        if self._snapshot is not None:
            torch.cuda.memory._record_memory_history(max_entries=_ENTRIES)
        self._before = torch.cuda.memory_allocated(self.place)

    def model_is_there(self, model: nn.Module) -> None:
        """The statistics count from before the model came."""

    def begin(self, phase: str, step: int) -> None:
        self._read()
        self._now = (step, phase)

    def stop(self) -> Memory:
        self._read()
        if self._snapshot is not None:
            torch.cuda.memory._dump_snapshot(str(self._snapshot))
            torch.cuda.memory._record_memory_history(enabled=None)
        last = {name: size for (step, name), size in self._peaks.items() if step == self._now[0] or name == "load"}
        phases = tuple(PhasePeak(name, last[name]) for name in PHASES if name in last)
        process = process_bytes(self.place)
        reserved_now = torch.cuda.memory_reserved(self.place)
        seen = None if process is None else _at_the_peak(process, self._reserved - reserved_now)
        return Memory(self._allocated, self._reserved, seen, self._peak_phase, phases, self._notes(process))

    def _read(self) -> None:
        """What was highest since the last phase began belongs to that phase.

        Allocation is the host's doing: nothing has to be waited for.
        """
        highest = torch.cuda.max_memory_allocated(self.place)
        self._reserved = max(self._reserved, torch.cuda.max_memory_reserved(self.place))
        self._peaks[self._now] = max(self._peaks.get(self._now, 0), highest)
        if highest > self._allocated:
            self._allocated, self._peak_phase = highest, self._now[1]
        torch.cuda.reset_peak_memory_stats(self.place)

    def _notes(self, process: Range | None) -> tuple[str, ...]:
        notes = []
        if self._before:
            notes.append(f"{self._before} bytes were allocated on the GPU before the model was made, and count")
        if process is None:
            notes.append("neither nvidia-smi nor the driver says what the process holds")
        elif process.low != process.high:
            notes.append("nvidia-smi does not list this process: the process' memory is a range, others may be in it")
        return tuple(notes)


def _at_the_peak(now: Range, given_back: int) -> Range:
    """The context stays as it is; what the allocator has given back since the peak was there too."""
    return Range(now.low + given_back, now.high + given_back)


def empty(place: torch.device) -> None:
    """As a new process finds the allocator: caches given back, and workspaces of cuBLAS too where torch can say so."""
    gc.collect()
    torch.cuda.synchronize(place)
    clear = getattr(torch._C, "_cuda_clearCublasWorkspaces", None)
    if clear is not None:
        clear()
    torch.cuda.empty_cache()


def process_bytes(place: torch.device) -> Range | None:
    """What the driver says this process holds on the GPU; where it names no processes, what is used beside others."""
    own = sum(int(row[1]) * MIB for row in smi("compute-apps", "pid,used_memory") if _is_own(row))
    if own:
        return Range(own, own)
    try:
        free, total = torch.cuda.mem_get_info(place)
    except RuntimeError:
        return None
    used, others = total - free, used_before().get(_uuid(place))
    if others is not None:
        return Range(used - others, used - others)
    return Range(torch.cuda.memory_reserved(place), used)


@functools.cache
def used_before() -> dict[str, int]:
    """What others held on each GPU, by its id, before this process came; empty where it was there already."""
    if torch.cuda.is_initialized():
        return {}
    rows = smi("gpu", "uuid,memory.used")
    return {row[0].removeprefix("GPU-"): int(row[1]) * MIB for row in rows if len(row) == 2 and row[1].isdecimal()}


def _uuid(place: torch.device) -> str:
    return str(getattr(torch.cuda.get_device_properties(place), "uuid", "")).removeprefix("GPU-")


def constants_here(place: torch.device) -> Constants | None:
    """What this GPU takes beside the tensors, after a measurement; None where the driver doesn't name the process."""
    process = process_bytes(place)
    if process is None or process.low != process.high:
        return None
    context = process.low - torch.cuda.memory_reserved(place)
    return Constants(
        torch.cuda.get_device_name(place), torch.__version__, driver(), Range(context, context), workspace_bytes(place)
    )


def workspace_bytes(place: torch.device) -> int | None:
    """What cuBLAS takes of the allocator with the first product of a thread; None where none can be seen."""
    empty(place)
    left = torch.ones(64, 64, device=place)
    before = torch.cuda.memory_allocated(place)
    product = left @ left
    taken = torch.cuda.memory_allocated(place) - before - product.numel() * product.element_size()
    return taken if taken > 0 else None


def driver() -> str:
    """The driver's version; where no one says it, the highest CUDA version that it knows."""
    rows = smi("gpu", "driver_version")
    if rows:
        return rows[0][0]
    version = getattr(torch._C, "_cuda_getDriverVersion", None)
    return f"cuda {version()}" if version is not None else "unknown"


def smi(what: str, fields: str) -> list[list[str]]:
    """Rows of `nvidia-smi --query-WHAT=FIELDS`; none where it isn't there or doesn't answer."""
    command = ["nvidia-smi", f"--query-{what}={fields}", "--format=csv,noheader,nounits"]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return []
    return [[cell.strip() for cell in line.split(",")] for line in run.stdout.splitlines() if line.strip()]


def _is_own(row: list[str]) -> bool:
    return len(row) == 2 and row[0] == str(os.getpid()) and row[1].isdecimal()
