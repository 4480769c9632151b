"""Optimizers on what a rank holds of its parameters, not on DTensors: the same memory in a tenth of the time."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

import torch
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Callable

VALUE_BY_VALUE = ("SGD", "Adam", "AdamW", "NAdam", "RAdam", "Adamax", "Adagrad", "RMSprop", "Lion", "EightBit")
"""classes whose state has the shape of the parameter; others may ask for the shape of the whole"""


def on_local_shards(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """`optimizer`, where its parameters are DTensors, with each rank's own parts in their place; else as it is.

    DTensor finds the sharding of each operator's results anew for each list of tensors: 7 of 25 s of an 8B model.
    """
    if type(optimizer).__name__ not in VALUE_BY_VALUE or optimizer.state:
        return optimizer
    parts: list[tuple[nn.Parameter, nn.Parameter]] = []
    for group in optimizer.param_groups:
        group["params"] = [_part(parameter, parts) for parameter in group["params"]]
    if parts:
        optimizer.register_step_pre_hook(lambda *_: _lend(parts))
        optimizer.zero_grad = partial(_freed, optimizer.zero_grad, parts)
    return optimizer


def _part(parameter: nn.Parameter, parts: list[tuple[nn.Parameter, nn.Parameter]]) -> nn.Parameter:
    local = local_of(parameter)
    if local is parameter:
        return parameter
    part = nn.Parameter(local, requires_grad=parameter.requires_grad)
    parts.append((parameter, part))
    return part


def local_of(tensor: torch.Tensor) -> torch.Tensor:
    """What this rank holds of a DTensor; another tensor itself."""
    return cast("torch.Tensor", getattr(tensor, "_local_tensor", tensor))


def _lend(parts: list[tuple[nn.Parameter, nn.Parameter]]) -> None:
    """The parts have the gradients too."""
    for parameter, part in parts:
        if parameter.grad is not None:
            part.grad = local_of(parameter.grad)


def _freed(zero_grad: Callable[[], None], parts: list[tuple[nn.Parameter, nn.Parameter]]) -> None:
    """`zero_grad`, which knows the parts alone, frees what they were lent."""
    zero_grad()
    for parameter, _ in parts:
        parameter.grad = None
