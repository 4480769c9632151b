"""Shapes of a model's inputs, with the batch and the sequence length left open, and the tensors made from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

import torch

from remat.probe.built import Inputs

if TYPE_CHECKING:
    from collections.abc import Mapping

Kind: TypeAlias = Literal["float", "int", "bool"]
BATCH, SEQ = "batch", "seq"


@dataclass(frozen=True, slots=True)
class Shape:
    """`dims`: numbers, `BATCH` or `SEQ`. `high`: integers are drawn below it."""

    dims: tuple[int | str, ...]
    kind: Kind = "float"
    high: int = 2

    def __str__(self) -> str:
        return f"{self.kind}[{', '.join(map(str, self.dims))}]"


@dataclass(frozen=True, slots=True)
class Sizes:
    batch: int
    seq: int
    dtype: torch.dtype = torch.float32

    def number(self, dim: int | str) -> int:
        return self.batch if dim == BATCH else self.seq if dim == SEQ else int(dim)


Value: TypeAlias = "Shape | dict[str, Shape] | int | float | None"


@dataclass(frozen=True, slots=True)
class Recipe:
    """What one call of a model takes, by parameter."""

    values: Mapping[str, Value] = field(default_factory=dict)

    def inputs(self, sizes: Sizes) -> Inputs:
        return Inputs((), {name: made(value, sizes) for name, value in self.values.items()})

    def __str__(self) -> str:
        return ", ".join(f"{name}: {_shown(value)}" for name, value in self.values.items())


def made(value: Value, sizes: Sizes) -> object:
    if isinstance(value, dict):
        return {key: made(inner, sizes) for key, inner in value.items()}
    return tensor(value, sizes) if isinstance(value, Shape) else value


def tensor(shape: Shape, sizes: Sizes) -> torch.Tensor:
    dims = tuple(map(sizes.number, shape.dims))
    if shape.kind == "int":
        return torch.randint(0, max(1, shape.high), dims)
    if shape.kind == "bool":
        return torch.ones(dims, dtype=torch.bool)
    return torch.randn(dims, dtype=sizes.dtype)


def _shown(value: Value) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f'"{key}": {inner}' for key, inner in value.items()) + "}"
    return str(value)


def dtype_of_floats(model: torch.nn.Module) -> torch.dtype:
    """The dtype that a model's parameters have, and so its inputs."""
    return next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)
