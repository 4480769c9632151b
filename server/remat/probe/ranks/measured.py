"""One rank of many, measured: its step really runs, among real ranks where torchrun started it, else pretended ones."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from torch.nn.parallel import DistributedDataParallel

from remat.probe.libraries import unwrapped
from remat.probe.measured.measurable import CannotMeasureError
from remat.probe.ranks import joined
from remat.probe.ranks.data_parallel import WRAPPED_TWICE
from remat.probe.ranks.fully_sharded import followed, shard
from remat.probe.ranks.refused import refuse, refused_functions, refusing
from remat.probe.ranks.spoken import is_rank
from remat.probe.ranks.world import pretended_ranks
from remat.probe.ranks.wrapped import track_buckets, wrapped
from remat.probe.simulated.variants import CannotApplyError, apply_variant

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch
    from torch import nn

    from remat.probe.built import Built, Inputs
    from remat.probe.messages import Limits, Variant
    from remat.probe.simulated.checkpoint_calls import Policy
    from remat.probe.simulated.trace import Trace


@contextlib.contextmanager
def one_rank(variant: Variant, place: torch.device, limits: Limits) -> Iterator[None]:
    """The process group that the steps of `variant` run in. Raises `CannotMeasureError`."""
    if variant.world_size is None:
        yield
        return
    if is_rank():
        with joined.joined(place, limits):
            yield
        return
    if variant.sharding == "ddp":
        _no_reducer()
    pairs = ((DistributedDataParallel, lambda *_, **__: _no_reducer()), *refused_functions())
    with refusing(), pretended_ranks(variant.world_size, *pairs, real=True):
        yield


def _no_reducer() -> NoReturn:
    raise CannotMeasureError(
        "DistributedDataParallel waits for the other ranks, which are pretended where one rank is measured",
        "estimate it: --mode estimate",
    )


def for_ranks(built: Built) -> Built:
    """`built`, which makes the batch for the model itself, whatever stands around it."""

    def batch(model: nn.Module, size: int | None, seq: int | None) -> Inputs:
        return built.make_batch(unwrapped(model), size, seq)

    return replace(built, make_batch=batch)


def applied(model: nn.Module, variant: Variant) -> tuple[nn.Module, Policy]:
    """The model as the variant wants it, still wrapped if the code has wrapped it."""
    inside = unwrapped(model)
    if inside is model:
        return apply_variant(model, variant)
    if variant.dtype is not None or variant.lora_rank is not None:
        raise CannotApplyError(
            "the code wraps the model in DistributedDataParallel itself, whose buckets are made by then: leave --dtype "
            "and --lora-rank out, or leave the wrapping to --sharding ddp"
        )
    _, policy = apply_variant(inside, variant)
    return model, policy


def placed(model: nn.Module, variant: Variant, place: torch.device) -> nn.Module:
    """The model on its device, sharded or wrapped; one that is sharded comes there block by block."""
    if variant.world_size is not None:
        refuse(model)
    if variant.sharding == "fsdp2":
        shard(model, variant, place.type)
        return model
    model = model if place.type == "cpu" else model.to(place)
    if variant.sharding != "ddp":
        return model
    if unwrapped(model) is not model:
        raise CannotApplyError(WRAPPED_TWICE)
    return wrapped(model, place)


def track(model: nn.Module, trace: Trace) -> None:
    """Tells the trace, which knows the model, what stands around it."""
    track_buckets(model, trace)


@contextlib.contextmanager
def observed(variant: Variant, trace: Trace) -> Iterator[None]:
    """Inside it `trace` sees what a rank does behind the dispatcher's back."""
    if variant.world_size is None:
        yield
        return
    with followed(trace):
        yield


def notes(variant: Variant, place: torch.device) -> list[str]:
    if variant.world_size is None:
        return []
    if is_rank():
        return joined.notes(variant, place)
    beside = f"one rank of {variant.world_size} was measured beside ranks that are pretended"
    return [f"{beside}: nothing was sent, so that step times are without it"]
