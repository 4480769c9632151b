"""A `remat_probe.py`: build(), batch() and loss(), written by the user for the probe."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, cast

import torch
from torch import nn

from remat.probe.built import Built, FactMissingError, Inputs
from remat.probe.losses import loss_of
from remat.probe.made import Made, as_inputs, built_from, call_loss
from remat.probe.messages import Location
from remat.probe.shapes import dtype_of_floats
from remat.probe.spec import NOTHING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from remat.probe.calls import Callee
    from remat.probe.loading import File


def built_by_functions(file: File) -> Built:
    """Read build(), which is needed, and batch(), loss() and optimizer(), which are not."""
    place = Location(str(file.path), 1)
    build = _function(file, "build")
    if build is None:
        raise FactMissingError(f"{file.path} has no build()", "add: def build(): return MyModel(...)", place)
    plain = built_from(Made(build, file, NOTHING, place))
    batch, loss, optimizer = (_function(file, name) for name in ("batch", "loss", "optimizer"))
    return Built(
        make_model=(lambda: _module(build(), place)) if batch is not None else plain.make_model,
        make_batch=plain.make_batch if batch is None else _batches(batch),
        make_loss=loss_of if loss is None else (lambda output, inputs: call_loss(loss, output, inputs)),
        make_optimizer=None if optimizer is None else _optimizers(optimizer),
        holds_outputs=True,
    )


def _function(file: File, name: str) -> Callee[object] | None:
    try:
        return cast("Callee[object]", file.look_up(name))
    except KeyError:
        return None


def _module(made: object, place: Location) -> nn.Module:
    if not isinstance(made, nn.Module):
        raise FactMissingError(
            f"build() returned a {type(made).__name__}", "let it return the torch.nn.Module that is trained", place
        )
    return made


def _batches(batch: Callee[object]) -> Callable[[nn.Module, int | None, int | None], Inputs]:
    def make(model: nn.Module, size: int | None, seq: int | None) -> Inputs:
        given = {"model": model, "batch": size, "batch_size": size, "seq": seq, "seq_len": seq}
        taken = inspect.signature(batch).parameters
        chosen = {name: given[name] for name in taken if given.get(name) is not None}
        inputs = as_inputs(batch(**chosen), dtype_of_floats(model))
        ignored = [name for name, value in (("batch", size), ("seq", seq)) if value is not None and name not in chosen]
        said = tuple(f"batch() takes no {name}: the one given is ignored" for name in ignored)
        return Inputs(inputs.args, inputs.kwargs, said)

    return make


def _optimizers(optimizer: Callee[object]) -> Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]:
    return lambda parameters: cast("torch.optim.Optimizer", optimizer(parameters))
