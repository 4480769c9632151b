"""Shapes of a model's inputs, with the batch and the sequence length left open, and the tensors made from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

import torch

from remat.probe.built import Inputs
from remat.probe.target.building import known_numbers

if TYPE_CHECKING:
    from collections.abc import Mapping

Kind: TypeAlias = Literal["float", "int", "bool", "box", "length"]
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


@dataclass(frozen=True, slots=True)
class PerSample:
    """A list with one entry for each sample, as detection models take them: tensors, or mappings of tensors."""

    each: Shape | tuple[tuple[str, Shape], ...]

    def __str__(self) -> str:
        if isinstance(self.each, Shape):
            return f"a list of {self.each}, one a sample"
        entries = ", ".join(f"'{key}': {shape}" for key, shape in self.each)
        return f"a list of {{{entries}}}, one a sample"


Value: TypeAlias = "Shape | PerSample | tuple[Shape, ...] | dict[str, Shape] | int | float | None"


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
    if isinstance(value, tuple):
        return tuple(tensor(inner, sizes) for inner in value)
    if isinstance(value, PerSample):
        return [_of_one(value, sizes) for _ in range(sizes.batch)]
    return tensor(value, sizes) if isinstance(value, Shape) else value


def _of_one(value: PerSample, sizes: Sizes) -> object:
    if isinstance(value.each, Shape):
        return tensor(value.each, sizes)
    return {key: tensor(shape, sizes) for key, shape in value.each}


def tensor(shape: Shape, sizes: Sizes) -> torch.Tensor:
    dims = tuple(map(sizes.number, shape.dims))
    if shape.kind == "int":
        return torch.randint(0, max(1, shape.high), dims)
    if shape.kind == "length":  # of sequences without padding
        with known_numbers():
            return torch.full(dims, sizes.seq)
    if shape.kind == "bool":
        return torch.ones(dims, dtype=torch.bool)
    if shape.kind == "box":  # from a corner to the one opposite
        return torch.rand(dims, dtype=sizes.dtype).cumsum(-1) * 100
    return torch.randn(dims, dtype=sizes.dtype)


def _shown(value: Value) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f'"{key}": {inner}' for key, inner in value.items()) + "}"
    if isinstance(value, tuple):
        return f"({', '.join(map(str, value))})"
    return str(value)


def dtype_of_floats(model: torch.nn.Module) -> torch.dtype:
    """The dtype that a model's parameters have, and so its inputs."""
    return next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)
