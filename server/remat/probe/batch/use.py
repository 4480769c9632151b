"""What the source of a forward tells of one of its parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True, slots=True)
class Use:
    """What a forward does with one parameter."""

    rank: int | None = None
    """how many sizes it unpacks"""
    consumer: nn.Module | None = None
    """the module with weights that sees it first"""
    flattened: bool = False
    """it is flattened before"""
    keys: tuple[str, ...] = ()
    """entries it is asked for, where it is a mapping"""
    changed: bool = False
    """its sizes are not those it came with, so what is found out later is not about it"""
    turned: bool = False
    """its axes change places before its consumer sees it"""
    last_turned: bool = False
    """its last axis is another one then"""
    joined: tuple[str, ...] = ()
    """the parameters that its consumer sees side by side, this one among them"""
    added: int = 0
    """axes it is given before"""
    spread: bool = False
    """it is a vector that is repeated over the points of a picture"""
    spread_beside: bool = False
    """one of those joined with it is"""
    beside: int = 0
    """how wide that is what modules made of other inputs and its consumer sees beside it; negative if nothing tells"""
    index: bool = False
    """tensors are indexed by it"""
    rows: int | None = None
    """that it has at least, each of which is taken by its number"""
