"""A model in the real DistributedDataParallel: put there, found in it, and what that keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from torch.nn.parallel import DistributedDataParallel

from remat.probe.libraries import is_wrapped
from remat.probe.ranks.fully_sharded import COMMUNICATION

if TYPE_CHECKING:
    import torch
    from torch import nn

    from remat.probe.simulated.trace import Trace


def wrapped(model: nn.Module, place: torch.device) -> nn.Module:
    """With torch's defaults."""
    return DistributedDataParallel(model, device_ids=None if place.type == "cpu" else [place.index or 0])


def bucket_bytes(model: nn.Module) -> int:
    """What it keeps to send gradients, from the wrapping on: as much as they take."""
    return sum(map(_size, _all(model)))


def track_buckets(model: nn.Module, trace: Trace) -> None:
    """Buckets are made when the model is wrapped, and anew before the second forward: in both cases with `trace` told
    that they are there to send.
    """
    for one in _all(model):
        _track(one, trace)


def _track(model: DistributedDataParallel, trace: Trace) -> None:
    # Gradients that are views of them are noted with what they are views of.
    first = [] if model.gradient_as_bucket_view else [trace.allocate(_size(model), "bucket", COMMUNICATION)]
    before = model._pre_forward

    def sending(*args: object, **kwargs: object) -> object:
        kept, trace.doing = trace.doing, COMMUNICATION
        try:
            return before(*args, **kwargs)
        finally:
            trace.doing = kept
            if first and model._has_rebuilt_buckets:
                trace.free(first.pop())

    model._pre_forward = sending


def _all(model: nn.Module) -> list[DistributedDataParallel]:
    return [cast("DistributedDataParallel", part) for part in model.modules() if is_wrapped(part)]


def _size(model: DistributedDataParallel) -> int:
    return sum(p.numel() * p.element_size() for p in model.parameters() if p.requires_grad)
