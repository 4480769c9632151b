"""Training steps, written as a plain training loop writes them, for whoever watches: a trace, or a measurement."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch

from remat.probe.built import FactMissingError, Inputs
from remat.probe.simulated.optimizers import make_optimizer
from remat.probe.simulated.variants import dtype_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from torch import nn

    from remat.probe.built import Built, Habits
    from remat.probe.messages import Variant

STEPS = 2
"""the first makes gradients and optimizer state; the second has all of them from its start"""


class Watcher(Protocol):
    """Who is told what the loop does next."""

    def begin(self, phase: str, step: int) -> None: ...
    def end_forward(self) -> None: ...
    def track(self, tensor: torch.Tensor, operator: str, category: str) -> None: ...


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Several optimizers, by name, each of which takes every step, as if it were the only one.

    Fakes have no values, so none changes what another sees. `apart`: told whose turn it is, by number; None: that of
    no one of them.
    """

    optimizers: tuple[str, ...]
    apart: Callable[[int | None], None]


@dataclass(frozen=True, slots=True)
class Loop:
    """How the loop runs. `device`: where the batch is moved to before each step; None leaves it where it is made, as
    fakes want it.
    """

    steps: int = STEPS
    device: torch.device | None = None
    side_by_side: SideBySide | None = None


def run_steps(built: Built, variant: Variant, model: nn.Module, watcher: Watcher, loop: Loop = Loop()) -> None:
    """Runs the steps of `loop`. A trace is entered, and knows the model's own tensors already."""
    device, side_by_side = loop.device, loop.side_by_side
    parameters = [p for p in model.parameters() if p.requires_grad]
    names = [variant.optimizer] if side_by_side is None else side_by_side.optimizers
    optimizers = [made for name in names if (made := make_optimizer(name, parameters, built)) is not None]
    copies = [*_copied(model, built.habits.copies, watcher), *_others(model, built.beside(), watcher)]
    held: object = None
    for step in range(loop.steps):
        for number in range(variant.grad_accum or built.grad_accum):
            watcher.begin("data", step)
            batch = _moved(make_batch(built, variant, model), device)
            _track_batch(batch, watcher)
            watcher.begin("forward", step)
            loss, output = _forward(built, variant, model, batch, "cpu" if device is None else device.type)
            held = (output if built.holds_outputs else None, loss if built.habits.retains_graph else None)
            del output
            watcher.end_forward()
            watcher.begin("backward", step)
            if built.habits.clears_late and number == 0:
                _clear(optimizers, built.habits, parameters)
            loss.backward(retain_graph=built.habits.retains_graph)
            del loss, batch
            for parameter in parameters:
                if parameter.grad is not None:
                    watcher.track(parameter.grad, "grad", "gradients")
        if optimizers:
            watcher.begin("optimizer", step)
            if built.habits.clips and variant.world_size is None:
                torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            _update(optimizers, watcher, side_by_side)
            if not built.habits.clears_late:
                _clear(optimizers, built.habits, parameters)
        elif built.habits.clears_all:
            _clear([], built.habits, parameters)
        if built.step_is_a_function:
            held = None
    del held, copies


def _copied(model: nn.Module, count: int, watcher: Watcher) -> list[torch.Tensor]:
    """Copies of a model that a moving average keeps: of its parameters and buffers, without gradients."""
    own = [*model.parameters(), *model.buffers()]
    copies = [tensor.detach().clone() for _ in range(count) for tensor in own]
    for copy in copies:
        watcher.track(copy, "copy", "buffers")
    return copies


def _others(model: nn.Module, size: int, watcher: Watcher) -> list[torch.Tensor]:
    """What stands for models beside this one."""
    if not size:
        return []
    held = torch.empty(size, dtype=torch.uint8, device=next(model.parameters()).device)
    watcher.track(held, "other models", "buffers")
    return [held]


def _update(optimizers: list[torch.optim.Optimizer], watcher: Watcher, side_by_side: SideBySide | None) -> None:
    for number, optimizer in enumerate(optimizers):
        if side_by_side is not None:
            side_by_side.apart(number)
        _step(optimizer)
        _track_state(optimizer, watcher)
    if side_by_side is not None:
        side_by_side.apart(None)


def _clear(optimizers: list[torch.optim.Optimizer], habits: Habits, parameters: list[nn.Parameter]) -> None:
    for optimizer in optimizers:
        if habits.keeps_gradients:
            optimizer.zero_grad(set_to_none=False)
        else:
            optimizer.zero_grad()
    if habits.clears_all and not habits.keeps_gradients:
        for parameter in parameters:
            parameter.grad = None


def _step(optimizer: torch.optim.Optimizer) -> None:
    try:
        optimizer.step()
    except RuntimeError as error:
        if "sparse gradients" not in str(error):
            raise
        name = type(optimizer).__name__
        fact = f"the optimizer: {name} takes no sparse gradients, which this model has (an embedding with sparse=True)"
        raise FactMissingError(
            fact, 'name the one that trains it: --optimizer sgd, or # remat: probe(optimizer="sgd")'
        ) from error


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


def _forward(
    built: Built, variant: Variant, model: nn.Module, batch: Inputs, device: str
) -> tuple[torch.Tensor, object]:
    autocast: AbstractContextManager[object] = contextlib.nullcontext()
    if variant.autocast is not None:
        autocast = torch.autocast(device, dtype=dtype_of(variant.autocast))
    with autocast:
        output = model(*batch.args, **batch.kwargs)
        loss = built.make_loss(output, batch)
    return loss, output if built.holds_outputs else None


def _moved(batch: Inputs, device: torch.device | None) -> Inputs:
    if device is None:
        return batch

    def move(leaf: object) -> object:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        return leaf.detach().to(device).requires_grad_(leaf.requires_grad)

    return Inputs(*torch.utils._pytree.tree_map(move, (batch.args, batch.kwargs)))


def _track_batch(batch: Inputs, watcher: Watcher) -> None:
    for tensor in torch.utils._pytree.tree_leaves((batch.args, batch.kwargs)):
        if isinstance(tensor, torch.Tensor):
            watcher.track(tensor, "input", "inputs")


def _track_state(optimizer: torch.optim.Optimizer, watcher: Watcher) -> None:
    for state in optimizer.state.values():
        for value in torch.utils._pytree.tree_leaves(dict(state)):
            if isinstance(value, torch.Tensor):
                watcher.track(value, "state", "optimizer")
