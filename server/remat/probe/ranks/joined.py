"""The real process group of a rank that torchrun started: joined before the user's code asks for one."""

from __future__ import annotations

import contextlib
import os
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from remat.probe.measured.measurable import CannotMeasureError
from remat.probe.ranks.refused import refused_functions, refusing
from remat.probe.ranks.spoken import FOLDER
from remat.probe.ranks.world import replaced_everywhere

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remat.probe.messages import Limits, Variant

_asked_for: list[str] = []
"""backends that the user's code names"""


@contextlib.contextmanager
def joined(place: torch.device, limits: Limits) -> Iterator[None]:
    """Inside it the user's code finds itself in its group; it may start and leave one as it is used to.

    Raises `CannotMeasureError`.
    """
    dist = torch.distributed
    if not dist.is_initialized():
        _join(place, limits)
    _asked_for.clear()

    def start(backend: object = None, *_: object, **__: object) -> None:
        if isinstance(backend, str):
            _asked_for.append(backend)

    pairs = (
        (dist.init_process_group, start),
        (dist.destroy_process_group, lambda *_, **__: None),
        *refused_functions(),
    )
    with refusing(), replaced_everywhere(*pairs):
        yield


def _join(place: torch.device, limits: Limits) -> None:
    """Met in a file of the launcher's folder: nothing listens beyond this machine."""
    dist = torch.distributed
    if place.type == "cuda":
        torch.cuda.set_device(place)
        if not dist.is_nccl_available():
            raise CannotMeasureError(
                f"ranks on cuda send over NCCL; torch {torch.__version__} is built without it",
                "measure with --device cpu, over gloo, or estimate: --mode estimate",
            )
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group(
        "gloo" if place.type == "cpu" else "cpu:gloo,cuda:nccl",
        store=dist.FileStore(str(Path(os.environ[FOLDER]) / "group"), size),
        rank=rank,
        world_size=size,
        timeout=timedelta(seconds=limits.seconds),
    )


def notes(variant: Variant, place: torch.device) -> list[str]:
    over = "gloo" if place.type == "cpu" else "NCCL"
    said = [f"each of {variant.world_size} ranks was a process of its own on this machine and really sent, over {over}"]
    others = [name for name in dict.fromkeys(_asked_for) if over.lower() not in name.lower()]
    if others:
        said.append(f"the code asks for {' and '.join(others)}: {over} was used")
    if place.type == "cpu":
        threads = torch.get_num_threads()
        said.append(f"each rank computed with {threads} thread{'s' if threads > 1 else ''} (OMP_NUM_THREADS)")
        said.append("gloo keeps copies of what it sends for a while: figures can be higher than an estimate's")
    return said
