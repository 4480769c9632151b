"""What a model says of itself: its attributes, its configuration, and what it was made with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from remat.probe.made_with import made_with

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import nn


def named_sides(model: nn.Module) -> Iterator[tuple[int, ...]]:
    """Yield what a model calls its image size, itself or in its configuration."""
    for holder in (model, *list(model.children())[:3]):
        for name in ("image_size", "img_size", "input_size", "resolution", "sample_size", "input_resolution", "size"):
            size = getattr(holder, name, None)
            size = of_config(holder, name) if size is None else size
            if isinstance(size, int) and not isinstance(size, bool) and 1 < size < 4096:
                yield (size, size)
            elif isinstance(size, tuple | list) and len(size) in {2, 3} and all(isinstance(s, int) for s in size):
                yield tuple(size[-2:])


def setting(model: nn.Module, name: str) -> object:
    """Return what a model, its configuration, or what it was made with, calls by a name."""
    for holder in (model, *made_with(model)):
        value = holder.get(name) if isinstance(holder, dict) else getattr(holder, name, None)
        if value is not None:
            return value
    return of_config(model, name)


def of_config(holder: nn.Module, name: str) -> object:
    for attribute in ("config", "cfg", "args", "hparams"):
        config = getattr(holder, attribute, None)
        if isinstance(config, dict) and name in config:
            return config[name]
        if config is not None and hasattr(config, name):
            return getattr(config, name)
    return None


def number(value: object) -> int | None:
    if isinstance(value, list | tuple) and value:
        value = value[0]
    return value if isinstance(value, int) and not isinstance(value, bool) else None
