"""The GPU that code asks for is there while its step is simulated, whatever this machine has."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import torch

from remat.probe.simulated.cuda.architecture import capability

if TYPE_CHECKING:
    from collections.abc import Iterator

_FIRST_WITH_BF16 = (8, 0)


@contextlib.contextmanager
def a_gpu_is_there(gpu: str | None = None) -> Iterator[None]:
    """Inside it `torch.cuda` says that there is one GPU, the card of that name (none: an A100), always ready."""
    generation = capability(gpu)
    answers: dict[str, object] = {
        "is_available": True,
        "is_bf16_supported": generation >= _FIRST_WITH_BF16,
        "device_count": 1,
        "current_device": 0,
        "get_device_capability": generation,
        "get_device_name": gpu or "NVIDIA A100-SXM4-80GB",
        "synchronize": None,
        "empty_cache": None,
        "reset_peak_memory_stats": None,
        "get_rng_state": torch.empty(0, dtype=torch.uint8),
        "set_rng_state": None,
    }
    kept = {name: getattr(torch.cuda, name) for name in answers}
    for name, answer in answers.items():
        setattr(torch.cuda, name, lambda *_, answer=answer, **__: answer)
    try:
        yield
    finally:
        for name, was in kept.items():
            setattr(torch.cuda, name, was)
