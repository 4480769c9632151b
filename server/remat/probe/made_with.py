"""What a model of the user's was made with, for the questions that its inputs raise."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from torch import nn

_known: WeakKeyDictionary[nn.Module, tuple[object, ...]] = WeakKeyDictionary()


def remember(model: nn.Module, given: tuple[object, ...]) -> None:
    _known[model] = given


def made_with(model: nn.Module) -> tuple[object, ...]:
    """Return the arguments that it was made with: its settings, and those given by name as one mapping."""
    return _known.get(model, ())
