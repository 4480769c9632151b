"""What is known of a model by the library it comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from torch import nn


def is_hugging_face(model: object) -> bool:
    return any(kind.__name__ == "PreTrainedModel" for kind in type(model).__mro__)


def is_wrapped(model: nn.Module) -> bool:
    """Whether it is torch's DistributedDataParallel, by its name: estimates have a stand-in for the class."""
    return type(model).__name__ == "DistributedDataParallel"


def unwrapped(model: nn.Module) -> nn.Module:
    """The model that DistributedDataParallel stands around; one that it doesn't is itself."""
    return cast("nn.Module", model.module) if is_wrapped(model) else model


def without_adapters(model: nn.Module) -> nn.Module:
    """The model that PEFT's adapters are in; the same one where there are none."""
    return cast("nn.Module", getattr(model, "get_base_model", lambda: model)())
