"""What two steps really take on this machine's CPU, by torch's profiler."""

from __future__ import annotations

import gc
from contextlib import nullcontext
from typing import TYPE_CHECKING

import torch
from torch.profiler import ProfilerActivity, profile

from remat.probe.simulated.optimizers import make_optimizer
from remat.probe.simulated.step import make_batch
from remat.probe.simulated.variants import apply_variant, dtype_of

if TYPE_CHECKING:
    from torch import nn

    from remat.probe.built import Built
    from remat.probe.messages import Variant


def peak_on_cpu(built: Built, variant: Variant) -> int:
    """The most bytes alive at once, the model's own included."""
    torch.manual_seed(0)
    model = built.make_model()
    model.train()
    model, _ = apply_variant(model, variant)
    gc.collect()  # what an earlier run allocated under a profiler would count as freed here
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        train(built, variant, model)
    alive = most = own_bytes(model)
    events = [e for e in profiler.profiler.kineto_results.events() if e.name() == "[memory]"]
    for event in sorted(events, key=lambda e: e.start_ns()):
        alive += event.nbytes()
        most = max(most, alive)
    return most


def own_bytes(model: nn.Module) -> int:
    storages = [tensor.untyped_storage() for tensor in (*model.parameters(), *model.buffers())]
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


def train(built: Built, variant: Variant, model: nn.Module) -> None:
    optimizer = make_optimizer(variant.optimizer, [p for p in model.parameters() if p.requires_grad], built)
    for _ in range(2):
        for _ in range(variant.grad_accum or 1):
            batch = make_batch(built, variant, model)
            with torch.autocast("cpu", dtype_of(variant.autocast)) if variant.autocast else nullcontext():
                loss = built.make_loss(model(*batch.args, **batch.kwargs), batch)
            loss.backward()
            del loss, batch
        if optimizer is not None:
            optimizer.step()
            optimizer.zero_grad()
