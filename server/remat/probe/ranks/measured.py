"""One rank of many, measured: its step really runs, beside ranks that are pretended."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NoReturn

from torch.nn.parallel import DistributedDataParallel

from remat.probe.measured.measurable import CannotMeasureError
from remat.probe.ranks.fully_sharded import followed, shard
from remat.probe.ranks.refused import refuse, refused_function, refusing
from remat.probe.ranks.world import pretended_ranks

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch
    from torch import nn

    from remat.probe.messages import Variant
    from remat.probe.simulated.trace import Trace


@contextlib.contextmanager
def one_rank(variant: Variant) -> Iterator[None]:
    """The process group that the steps of `variant` run in. Raises `CannotMeasureError`."""
    if variant.world_size is None:
        yield
        return
    if variant.sharding == "ddp":
        _no_reducer()
    pairs = ((DistributedDataParallel, lambda *_, **__: _no_reducer()), refused_function())
    with refusing(), pretended_ranks(variant.world_size, *pairs, real=True):
        yield


def _no_reducer() -> NoReturn:
    raise CannotMeasureError(
        "DistributedDataParallel waits for the other ranks, which are pretended where one rank is measured",
        "estimate it: --mode estimate",
    )


def placed(model: nn.Module, variant: Variant, place: torch.device) -> nn.Module:
    """The model on its device; one that is sharded comes there block by block."""
    if variant.world_size is not None:
        refuse(model)
    if variant.sharding == "fsdp2":
        shard(model, variant, place.type)
        return model
    return model if place.type == "cpu" else model.to(place)


@contextlib.contextmanager
def observed(variant: Variant, trace: Trace) -> Iterator[None]:
    """Inside it `trace` sees what a rank does behind the dispatcher's back."""
    if variant.world_size is None:
        yield
        return
    with followed(trace):
        yield


def notes(variant: Variant) -> list[str]:
    if variant.world_size is None:
        return []
    beside = f"one rank of {variant.world_size} was measured beside ranks that are pretended"
    return [f"{beside}: nothing was sent, so that step times are without it"]
