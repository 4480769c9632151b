"""Makes the optimizer of a script's model as the script does, or says what stands in for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from remat.probe.simulated.optimizers import named
from remat.probe.target.own_optimizer import chosen, configured, made_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from torch import nn

    from remat.probe.target.loading import File
    from remat.probe.target.own_optimizer import Making


@dataclass(slots=True)
class Stepping:
    """`names`: what the model is called, by the line of each function. `usual`: the name of what stands in.

    `said`: of the last optimizer that was made.
    """

    file: File
    makings: Sequence[Making]
    names: Callable[[], Mapping[int, str]]
    usual: str
    said: list[str] = field(default_factory=list)

    def make(self, model: nn.Module, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        parameters = list(parameters)
        own = self._configured(model)
        if own is not None:
            return self._guarded(own)
        mine, others = chosen(self.makings, self.names())
        made = [optimizer for making in mine if (optimizer := self._made(model, making)) is not None]
        for making in others:
            whose = ", ".join(sorted(making.roots))
            self.said.append(f"{making.what} at {self._at(making)} trains {whose}: neither is counted")
        if not made:
            if not mine:
                self.said.append(
                    f"the optimizer is {self.usual}: which one is this model's, only a run tells (--optimizer)"
                )
            return named(self.usual, parameters)
        self._say_what_is_left(made, parameters)
        return self._guarded(made[0] if len(made) == 1 else Several(made))

    def _configured(self, model: nn.Module) -> torch.optim.Optimizer | None:
        try:
            own = configured(model)
        except (Exception, SystemExit) as error:  # noqa: BLE001  (any code of the user's)
            self.said.append(
                f"the optimizer is {self.usual}: configure_optimizers fails here ({type(error).__name__}: {error})"
            )
            return named(self.usual, [p for p in model.parameters() if p.requires_grad])
        if own is not None:
            self.said.append(
                f"the optimizer is {type(own).__name__}, as {type(model).__name__}.configure_optimizers has it"
            )
        return own

    def _made(self, model: nn.Module, making: Making) -> torch.optim.Optimizer | None:
        try:
            made = made_for(model, self.file, making.call, self.names())
        except (Exception, SystemExit) as error:  # noqa: BLE001  (any code of the user's)
            why = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
            self.said.append(
                f"the optimizer is {self.usual}: how {self._at(making)} makes {making.what} is not known here ({why})"
            )
            return None
        self.said.append(f"the optimizer is {type(made).__name__}, as {self._at(making)} makes it (--optimizer)")
        return made

    def _say_what_is_left(self, made: list[torch.optim.Optimizer], parameters: list[nn.Parameter]) -> None:
        has = {id(p) for optimizer in made for group in optimizer.param_groups for p in group["params"]}
        left = sum(1 for p in parameters if id(p) not in has)
        if left:
            text = f"{left} of the {len(parameters)} parameters that have gradients are not the optimizer's"
            self.said.append(f"{text}: their gradients are counted, without its state")

    def _at(self, making: Making) -> str:
        return f"{self.file.path.name}:{making.line}"

    def _guarded(self, optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        """What only a GPU, or a closure, lets step is stepped as AdamW, which is said."""
        step, instead = optimizer.step, list[torch.optim.Optimizer]()

        def stepped() -> None:
            if not instead:
                try:
                    step()
                except (TypeError, NotImplementedError, ImportError, AttributeError, AssertionError) as error:
                    self.said.append(_not_stepped(optimizer, error))
                else:
                    return
                instead.append(named("adamw", [p for group in optimizer.param_groups for p in group["params"]]))
            instead[0].step()
            optimizer.state.update(instead[0].state)

        optimizer.step = stepped
        return optimizer


def _not_stepped(optimizer: torch.optim.Optimizer, error: Exception) -> str:
    if isinstance(optimizer, torch.optim.LBFGS):
        count = 2 * int(optimizer.param_groups[0]["history_size"])
        return f"LBFGS is not simulated: it keeps up to {count} copies of the parameters, of which 2 are counted"
    why = (str(error).splitlines() or [""])[0]
    return f"{type(optimizer).__name__} can't step here ({why}): the state counted is AdamW's"


class Several(torch.optim.Optimizer):
    """Optimizers that share a model, each with parameters of its own."""

    def __init__(self, optimizers: list[torch.optim.Optimizer]) -> None:
        super().__init__([p for one in optimizers for group in one.param_groups for p in group["params"]], {})
        self.optimizers = optimizers

    def step(self, closure: object = None) -> None:  # noqa: ARG002 -- torch's signature
        for one in self.optimizers:
            one.step()
            self.state.update(one.state)
