"""Whether a step can be measured here, and if not, what stands in the way and what to do."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING

import torch

from remat.probe.measured.available import available_memory
from remat.probe.measured.memory_on_cuda import used_before

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from remat.probe.messages import Device, Limits, Variant, VariantResult

_PROCESS = 270 * 2**20
"""what a rank holds before it has a model: torch (measured: 263 MiB for torch 2.13 on the CPU)"""
_SAFETY = 1.1
"""of what is expected, before a run on the CPU is refused: a machine that swaps helps nobody"""


class CannotMeasureError(Exception):
    """What stands in the way of measuring, and what to do: reported as a `Failure` of the stage "measure"."""

    def __init__(self, message: str, how: str) -> None:
        super().__init__(message)
        self.how = how


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


def refuse_stand_ins(variant: Variant) -> None:
    if variant.optimizer == "adamw-8bit":
        raise CannotMeasureError(
            "adamw-8bit stands for the size of its state, and no step of it can be run",
            "estimate it (--mode estimate), or let the target make bitsandbytes' own optimizer",
        )


def refuse_missing_gpus(ranks: int, there: int) -> None:
    """Each rank needs a GPU of its own, on this machine."""
    if ranks <= there:
        return
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    fewer = f"ask for --world-size {there}, " if there > 1 else ""
    raise CannotMeasureError(
        f"measuring {ranks} ranks on cuda needs {ranks} GPUs on this machine, one for each; {there} "
        f"{'is' if there == 1 else 'are'} here"
        + ("" if visible is None else f" (CUDA_VISIBLE_DEVICES is {visible!r})"),
        f"{fewer}estimate one rank of {ranks} (--mode estimate), or measure over gloo with --device cpu; ranks on "
        "several machines are not measured",
    )


def refuse_too_large(
    expected: VariantResult | None, place: torch.device, limits: Limits, shards: int = 1, ranks: int = 1
) -> None:
    """On a GPU only the host's part is looked at: running out of the GPU's memory harms nobody, and is an answer.

    `shards`: into how many the model is cut once it is made, whole, on the host. `ranks`: how many do so at once.
    """
    if expected is None:
        return
    weights = expected.by_category.get("parameters", 0)
    needed = ((expected.allocated_bytes if place.type == "cpu" else weights) + weights * (shards - 1)) * ranks
    needed += _PROCESS * ranks if ranks > 1 else 0
    there = available_memory(limits.memory_bytes)
    if there is not None and needed * _SAFETY > there:
        what = "the steps" if place.type == "cpu" else "the weights, before they go to the GPU,"
        what += f" of {ranks} ranks" if ranks > 1 else ""
        raise CannotMeasureError(
            f"{what} are expected to need {_gib(needed)}; {_gib(there)} are free here",
            "ask for a smaller --batch or --seq, free some memory, or estimate: --mode estimate",
        )


@contextlib.contextmanager
def reporting_no_room(place: torch.device, stage: Callable[[], str]) -> Iterator[None]:
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
            f"{stage()} ran out of memory{had}: {first_line(error)}",
            "ask for a smaller --batch or --seq or for --checkpointing all, or estimate: --mode estimate",
        ) from error


def _is_out_of_memory(error: BaseException) -> bool:
    if isinstance(error, MemoryError):
        return True
    return type(error).__name__ == "OutOfMemoryError" or "can't allocate memory" in str(error)


def first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]


def _gib(size: float) -> str:
    return f"{size / 2**30:.2f} GiB"
