"""Whether estimates can be trusted on the user's torch: a small model, estimated for the CPU and really run on it."""

from __future__ import annotations

from functools import cache

import torch
from torch import nn
from torch.nn import functional

from remat.probe.built import Built, Inputs
from remat.probe.measured.memory_on_cpu import CpuMeter
from remat.probe.messages import AGREES_WITHIN, Variant
from remat.probe.simulated.checkpoint_calls import checkpoint_calls
from remat.probe.simulated.modules import Modules
from remat.probe.simulated.step import run_steps
from remat.probe.simulated.trace import Trace
from remat.probe.simulated.variants import apply_variant

TESTED = ("2.13.",)
"""versions of torch that the whole truth suite runs on"""


def is_tested() -> bool:
    return torch.__version__.startswith(TESTED)


def agrees(estimated: int) -> bool:
    """Whether a real run of `SMALL` takes what was estimated, within two hundredths; a second's work."""
    return abs(estimated / really_taken() - 1) <= AGREES_WITHIN


class _Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(128)
        self.project, self.back = nn.Linear(128, 384), nn.Linear(128, 128)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.project(self.norm(x)).view(4, 64, 3, 4, 32).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        return x + functional.gelu(self.back(mixed.transpose(1, 2).reshape(4, 64, 128)))


class _Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(64, 128)
        self.blocks = nn.ModuleList(_Block() for _ in range(2))
        self.head = nn.Linear(128, 64)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return functional.cross_entropy(self.head(x).flatten(0, 1), tokens.flatten())


SMALL = Built(_Small, lambda *_: Inputs((torch.randint(0, 64, (4, 64)),)), lambda out, _: out)
SMALL_VARIANT = Variant("self-check", checkpointing="every-2", optimizer="adamw")


@cache
def really_taken() -> int:
    """Bytes at the peak of two real steps on the CPU."""
    meter = CpuMeter()
    model, policy = apply_variant(SMALL.make_model(), SMALL_VARIANT)
    idle = Trace()
    meter.model_is_there(model)
    with checkpoint_calls(idle, Modules(model), policy):
        run_steps(SMALL, SMALL_VARIANT, model, _Phases(meter, idle))
    return meter.stop().allocated


class _Phases:
    """Tells the idle trace, which checkpointing asks, and the meter where the loop is."""

    def __init__(self, meter: CpuMeter, idle: Trace) -> None:
        self._meter, self._idle = meter, idle

    def begin(self, phase: str, step: int) -> None:
        self._idle.phase = phase
        self._meter.begin(phase, step)

    def end_forward(self) -> None: ...

    def track(self, tensor: torch.Tensor, operator: str, category: str) -> None: ...
