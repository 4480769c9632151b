"""The repeated blocks of a model: what checkpointing is applied to."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from torch import nn

if TYPE_CHECKING:
    from collections.abc import Iterator

CONTAINERS = (nn.ModuleList, nn.Sequential, nn.ModuleDict)


def repeated_blocks(model: nn.Module) -> list[str]:
    """Names of the outermost modules that stand at least twice, by class, in one list or sequence.

    Where no container holds any, modules of one class that are attributes of one module count.
    """
    return list(_in_containers(model, "")) or list(_as_attributes(model, ""))


def _in_containers(module: nn.Module, name: str) -> Iterator[str]:
    is_container = isinstance(module, CONTAINERS)
    blocks = _repeated(module) if is_container else set()
    for child_name, child in module.named_children():
        full = f"{name}.{child_name}" if name else child_name
        if child_name in blocks:
            yield full
        else:
            yield from _in_containers(child, full)


def _as_attributes(module: nn.Module, name: str) -> Iterator[str]:
    blocks = _repeated(module)
    for child_name, child in module.named_children():
        full = f"{name}.{child_name}" if name else child_name
        if child_name in blocks:
            yield full
        else:
            yield from _as_attributes(child, full)


def _repeated(module: nn.Module) -> set[str]:
    """Children that have parts of their own, hold parameters, and are not the only one of their class."""
    children = {name: child for name, child in module.named_children() if _is_block(child)}
    counts = Counter(type(child) for child in children.values())
    return {name for name, child in children.items() if counts[type(child)] > 1}


def _is_block(module: nn.Module) -> bool:
    """A sequence is a block where it holds none itself, as in a list of `Sequential(Linear, GELU, Linear)`."""
    if next(module.children(), None) is None or next(module.parameters(), None) is None:
        return False
    if isinstance(module, nn.Sequential):
        return not any(_repeated(part) for part in module.modules() if isinstance(part, CONTAINERS))
    return not isinstance(module, CONTAINERS)
