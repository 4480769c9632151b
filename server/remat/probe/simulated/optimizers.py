"""The optimizers a variant can name, as torch's own classes or as their state's size."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

import torch

from remat.probe.messages import AS_WRITTEN
from remat.probe.ranks.shards import on_local_shards
from remat.probe.simulated.variants import CannotApplyError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import nn

    from remat.probe.built import Built

_DEFAULT = "_default_to_fused_or_foreach"
_FORMS = {"": {}, "foreach": {"foreach": True}, "fused": {"fused": True}, "forloop": {"foreach": False}}


def make_optimizer(name: str, parameters: list[nn.Parameter], built: Built) -> torch.optim.Optimizer | None:
    optimizer = _made(name, parameters, built)
    return None if optimizer is None else on_local_shards(optimizer)


def _made(name: str, parameters: list[nn.Parameter], built: Built) -> torch.optim.Optimizer | None:
    if not parameters or name == "none":
        return None
    if name == AS_WRITTEN:
        make = built.make_optimizer or torch.optim.AdamW
        return make(parameters)
    return named(name, parameters)


def named(name: str, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    """An optimizer by its name as in `Variant.optimizer`, with torch's own settings."""
    if name == "adamw-8bit":
        return EightBit(parameters)
    base, _, form = name.partition("-")
    makers = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
    settings: dict[str, object] = {"lr": 1e-4}
    if base == "sgd" and form.startswith("momentum"):
        settings["momentum"] = 0.9
        form = form.removeprefix("momentum").removeprefix("-")
    if base == "adafactor" and not form:
        return _adafactor(parameters)
    if base not in makers or form not in _FORMS:
        raise CannotApplyError(
            f"expected an optimizer such as adamw, adamw-fused, sgd-momentum or adafactor, got {name!r}"
        )
    return makers[base](parameters, **settings, **_FORMS[form])


def _adafactor(parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    if not hasattr(torch.optim, "Adafactor"):
        raise CannotApplyError(f"torch {torch.__version__} has no Adafactor (torch >= 2.5 has)")
    return torch.optim.Adafactor(parameters)


class EightBit(torch.optim.Optimizer):
    """The size of bitsandbytes' 8-bit AdamW: two bytes a value and an fp32 scale for each 256 values of each moment;
    tensors below 4096 values keep fp32 moments (bitsandbytes `min_8bit_size`).
    """

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        super().__init__(parameters, {})

    @torch.no_grad()
    def step(self, closure: object = None) -> None:  # noqa: ARG002 -- torch's signature
        for parameter in (p for group in self.param_groups for p in group["params"] if p.grad is not None):
            state, count = self.state[parameter], parameter.numel()
            if state:
                continue
            for moment in ("first", "second"):
                small = count < 4096
                state[moment] = torch.zeros(count, dtype=torch.float32 if small else torch.uint8)
                if not small:
                    state[f"{moment}_scale"] = torch.zeros((count + 255) // 256)


@contextlib.contextmanager
def cuda_defaults() -> Iterator[None]:
    """Where the user says neither foreach nor fused, decide as for parameters on a GPU.

    `_default_to_fused_or_foreach` (torch 2.0 to 2.13) picks foreach for floating CUDA parameters; fakes on "cpu" would
    get the loop. Full fine-tuning of 1B parameters was 18.8 % too low without this.
    """
    modules = [m for name, m in list(sys.modules.items()) if name.startswith("torch.optim") and m is not None]
    with contextlib.ExitStack() as undo:
        for module in modules:
            if hasattr(module, _DEFAULT):
                undo.callback(setattr, module, _DEFAULT, getattr(module, _DEFAULT))
                setattr(module, _DEFAULT, _foreach)
        yield


def _foreach(_params: object, differentiable: bool, use_fused: bool = False) -> tuple[bool, bool]:  # noqa: FBT001, FBT002, ARG001 -- torch's signature
    return False, not differentiable
