"""Two training steps under a trace, written as a plain training loop writes them."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import torch

from remat.probe.built import Inputs
from remat.probe.optimizers import make_optimizer
from remat.probe.variants import dtype_of

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from torch import nn

    from remat.probe.built import Built
    from remat.probe.messages import Variant
    from remat.probe.trace import Trace

STEPS = 2
"""the first makes gradients and optimizer state; the second has all of them from its start"""


def run_steps(built: Built, variant: Variant, model: nn.Module, trace: Trace) -> None:
    """Runs `STEPS` steps. The trace is entered; the model's own tensors are tracked already."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = make_optimizer(variant.optimizer, parameters, built)
    held: object = None
    for step in range(STEPS):
        for _ in range(variant.grad_accum):
            trace.begin("data", step)
            batch = make_batch(built, variant, model)
            _track_batch(batch, trace)
            trace.begin("forward", step)
            loss, output = _forward(built, variant, model, batch)
            held = output if built.holds_outputs else None
            del output
            trace.end_forward()
            trace.begin("backward", step)
            loss.backward()
            del loss, batch
            for parameter in parameters:
                if parameter.grad is not None:
                    trace.track(parameter.grad, "grad", "gradients")
        if optimizer is not None:
            trace.begin("optimizer", step)
            optimizer.step()
            _track_state(optimizer, trace)
            optimizer.zero_grad()
    del held


def make_batch(built: Built, variant: Variant, model: nn.Module) -> Inputs:
    """The target's batch; where the variant names a dtype, floating inputs have it too, as the model needs."""
    batch = built.make_batch(model, variant.batch, variant.seq)
    if variant.dtype is None:
        return batch
    dtype = dtype_of(variant.dtype)

    def cast(item: object) -> object:
        if not (isinstance(item, torch.Tensor) and item.is_floating_point()) or item.dtype == dtype:
            return item
        return item.detach().to(dtype).requires_grad_(item.requires_grad)

    args, kwargs = torch.utils._pytree.tree_map(cast, (batch.args, batch.kwargs))
    return Inputs(args, kwargs)


def _forward(built: Built, variant: Variant, model: nn.Module, batch: Inputs) -> tuple[torch.Tensor, object]:
    autocast: AbstractContextManager[object] = contextlib.nullcontext()
    if variant.autocast is not None:
        autocast = torch.autocast("cpu", dtype=dtype_of(variant.autocast))
    with autocast:
        output = model(*batch.args, **batch.kwargs)
        loss = built.make_loss(output, batch)
    return loss, output if built.holds_outputs else None


def _track_batch(batch: Inputs, trace: Trace) -> None:
    for tensor in torch.utils._pytree.tree_leaves((batch.args, batch.kwargs)):
        if isinstance(tensor, torch.Tensor):
            trace.track(tensor, "input", "inputs")


def _track_state(optimizer: torch.optim.Optimizer, trace: Trace) -> None:
    for state in optimizer.state.values():
        for value in torch.utils._pytree.tree_leaves(dict(state)):
            if isinstance(value, torch.Tensor):
                trace.track(value, "state", "optimizer")
