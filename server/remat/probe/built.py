"""The border between making the user's model and estimating its step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import torch
    from torch import nn

    from remat.probe.messages import Location


class FactMissingError(Exception):
    """A fact the target leaves open: reported as `Failure.missing`. `how` is the line to add or the option to give.

    Raised by `remat.probe.target.resolve.resolve`, which reads a target as it was typed, and by the functions of the
    `Built` that it returns.
    """

    def __init__(self, fact: str, how: str, location: Location | None = None) -> None:
        super().__init__(fact)
        self.fact = fact
        self.how = how
        self.location = location


@dataclass(frozen=True, slots=True)
class Inputs:
    """Arguments of one call of the model."""

    args: tuple[object, ...] = ()
    kwargs: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Habits:
    """What a training loop does beside forward, backward and the optimizer's step, as far as it takes memory."""

    clips: bool = False
    """the norm of the gradients is clipped before each step"""
    keeps_gradients: bool = False
    """`zero_grad(set_to_none=False)`: they stay, as zeros"""
    clears_late: bool = False
    """gradients are cleared between forward and backward, so that the last step's are there during forward"""
    clears_all: bool = False
    """`model.zero_grad()`: those that no optimizer has are cleared too"""
    retains_graph: bool = False
    """`backward(retain_graph=True)`: what the graph keeps lives as long as the loss, to the end of the next forward"""
    copies: int = 0
    """of the model that a moving average keeps"""
    drops_output: bool = False
    """the model's output has no name that would keep it alive"""


@dataclass(frozen=True, slots=True)
class Built:
    """How to make the model, its batch and its loss.

    The functions are called inside whatever fake or real world the caller has entered, once for each variant, and
    must not keep tensors between calls. They raise what the user's code raises.
    """

    make_model: Callable[[], nn.Module]
    make_batch: Callable[[nn.Module, int | None, int | None], Inputs]
    """model, batch size, sequence length (None: the target's default) -> arguments of one call"""
    make_loss: Callable[[object, Inputs], torch.Tensor]
    """the model's output and the batch -> a scalar; it runs in the forward phase, under autocast if there is any"""
    make_optimizer: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer] | None = None
    """the user's own optimizer, for `Variant.optimizer == AS_WRITTEN`; None: `optimizer`, else AdamW"""
    optimizer: str | None = None
    """the name of the target's own optimizer, as in `Variant.optimizer`, where `make_optimizer` is None"""
    autocast: str | None = None
    """what `Variant.autocast` is where that says nothing"""
    origins: Mapping[str, str] = field(default_factory=dict)
    """why `optimizer` and `autocast` are what they are, each a sentence, where the target's own lines say so"""
    training: bool | None = True
    """True: `model.train()` is called, as training loops do; None: left in the mode `make_model` gives it"""
    holds_outputs: bool = False
    """the loop keeps the model's output until the next forward has returned (`out = model(...)` in a plain loop);
    Hugging Face's Trainer does not"""
    grad_accum: int = 1
    """batches for each step of the optimizer, where the variant says nothing"""
    habits: Habits = field(default_factory=Habits)
    beside: Callable[[], int] = int
    """bytes of other models that are there while this one is trained"""
    step_is_a_function: bool = False
    """each step runs in a function of its own, so what it holds ends with it, not with the next forward"""
    assumptions: tuple[str, ...] = ()
    """what the builder had to assume, each a sentence"""
    notes: Callable[[], tuple[str, ...]] = tuple
    """what it had to assume for the last batch it made, which depends on the sizes that were asked for"""
