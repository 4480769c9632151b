"""A `remat_probe.py`: build(), batch() and loss(), written by the user for the probe."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, cast

import torch
from torch import nn

from remat.probe.batch.losses import loss_of
from remat.probe.batch.shapes import dtype_of_floats
from remat.probe.built import Built, FactMissingError, Inputs
from remat.probe.messages import Location
from remat.probe.target.made import Made, as_inputs, built_from, call_loss
from remat.probe.target.spec import NOTHING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from remat.probe.target.calls import Callee
    from remat.probe.target.loading import File


_USUAL = {"batch": 1, "batch_size": 1, "seq": 512, "seq_len": 512}


def built_by_functions(file: File) -> Built:
    """Read build(), which is needed, and batch(), loss() and optimizer(), which are not."""
    place = Location(str(file.path), 1)
    build = _function(file, "build")
    if build is None:
        raise FactMissingError(f"{file.path} has no build()", "add: def build(): return MyModel(...)", place)
    plain = built_from(Made(build, file, NOTHING, place))
    batch, loss, optimizer = (_function(file, name) for name in ("batch", "loss", "optimizer"))
    said: list[str] = []
    return Built(
        make_model=(lambda: _module(build(), place)) if batch is not None else plain.make_model,
        make_batch=plain.make_batch if batch is None else _batches(batch, said),
        make_loss=loss_of if loss is None else (lambda output, inputs: call_loss(loss, output, inputs)),
        make_optimizer=None if optimizer is None else _optimizers(optimizer),
        holds_outputs=True,
        notes=plain.notes if batch is None else lambda: tuple(said),
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


def _batches(batch: Callee[object], said: list[str]) -> Callable[[nn.Module, int | None, int | None], Inputs]:
    """Call the user's batch() with those of the model, the batch size and the sequence length that it takes."""

    def make(model: nn.Module, size: int | None, seq: int | None) -> Inputs:
        given = {"model": model, "batch": size, "batch_size": size, "seq": seq, "seq_len": seq}
        taken = inspect.signature(batch).parameters
        said[:] = [f"batch() takes no {n}: what was given is ignored" for n in _ignored(set(taken), size, seq)]
        chosen: dict[str, object] = {}
        for name in taken:
            if given.get(name) is not None:
                chosen[name] = given[name]
            elif name in _USUAL and taken[name].default is inspect.Parameter.empty:
                chosen[name] = _USUAL[name]
                said.append(f"{name} of batch() is {_USUAL[name]}, since none was given")
        return as_inputs(batch(**chosen), dtype_of_floats(model))

    return make


def _ignored(taken: set[str], size: int | None, seq: int | None) -> list[str]:
    unused = {"batch": size is not None and not taken & {"batch", "batch_size"}}
    unused["seq"] = seq is not None and not taken & {"seq", "seq_len"}
    return [name for name, is_so in unused.items() if is_so]


def _optimizers(optimizer: Callee[object]) -> Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]:
    return lambda parameters: cast("torch.optim.Optimizer", optimizer(parameters))
