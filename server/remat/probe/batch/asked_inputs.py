"""Asks for the inputs of a forward, with the line to add filled in as far as its modules tell."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import torch

from remat.probe.batch.use import Use
from remat.probe.built import FactMissingError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from remat.probe.messages import Location

_TIME = re.compile(r"ts?|.*time_?(steps?)?")


def ask_for(fact: str, wanted: Mapping[str, Use], place: Location) -> FactMissingError:
    named = wanted or {"name": Use()}
    names = ", ".join(f'"{name}": {_known_part(name, use, alone=len(named) == 1)}' for name, use in named.items())
    how = f"add above line {place.line} of {place.path}: # remat: probe(inputs={{{names}}})"
    return FactMissingError(fact, how, place)


def _known_part(name: str, use: Use, *, alone: bool) -> str:
    """Write what the module that sees an input tells of it, `…` for the rest; for the only input that has failed."""
    module = use.consumer
    if isinstance(module, torch.nn.Embedding | torch.nn.EmbeddingBag):
        return f"torch.randint(0, {module.num_embeddings}, (batch, …))"
    if use.index and module is None:
        return f"torch.randint(0, …, ({use.rows or 'batch'}, …))"
    if "mask" in name.lower() and module is None:
        return "torch.ones(batch, …, dtype=torch.bool)"
    if _TIME.fullmatch(name.lower()) and isinstance(module, torch.nn.Linear):  # it sees what is worked out of a time
        return "torch.randint(0, 1000, (batch,))"
    if alone or use.changed or use.flattened or use.beside < 0:
        return "torch.randn(batch, …)"
    if isinstance(module, torch.nn.Linear):
        return f"torch.randn(batch, …, {module.in_features - use.beside})"
    if isinstance(module, torch.nn.Conv1d | torch.nn.Conv2d | torch.nn.Conv3d):
        return f"torch.randn(batch, {module.in_channels}, …)"
    return "torch.randn(batch, …)"
