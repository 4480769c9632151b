"""Measures every rank of a variant at once, on this machine, or says what it would take."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from remat.probe.guards import time_left
from remat.probe.measured.measurable import device_here, refuse_missing_gpus, refuse_stand_ins, refuse_too_large
from remat.probe.ranks.launched import forget_folders, measure_together
from remat.probe.ranks.spoken import is_rank

if TYPE_CHECKING:
    from remat.probe.messages import Failure, Request, Variant, VariantResult


def is_of_ranks(variant: Variant) -> bool:
    """Whether measuring it takes processes of their own: it has several ranks, and this is none of them."""
    return variant.world_size is not None and not is_rank()


def measure_ranks(
    variant: Variant, size: int, request: Request, expected: VariantResult | None
) -> VariantResult | Failure:
    """The figures of the rank that took most, or which rank failed. Raises `CannotMeasureError`."""
    place = device_here(request.device)
    if place.type == "cuda":
        refuse_missing_gpus(size, torch.cuda.device_count())
    refuse_stand_ins(variant)
    refuse_too_large(expected, place, request.limits, size if variant.sharding == "fsdp2" else 1, size)
    forget_folders()
    left = min(time_left(), request.limits.seconds)
    return measure_together(replace(request, variants=(variant,), mode="measure"), size, left)
