"""What loading a model in four bits leaves behind: the same tensors, in other places of the allocator's segments.

transformers 5.0 to 5.17: `caching_allocator_warmup` takes the size of the whole model at once and gives it back
(modeling_utils.py); then one weight after the other, sorted by name, comes in fp16 and, if it is a linear layer's, is
quantised and given back (core_model_loading.py; bitsandbytes/backends/cuda/ops.py: scales, then packed values, then the
code). peft 0.19 and 0.20, `prepare_model_for_kbit_training`: what is not quantised becomes fp32, one after the other.
Then the adapters are made. The cache is not emptied (peft does that from 0.21 on).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.published.nf4 import Linear4bit

from remat.probe.simulated.log import Allocation, Mark

if TYPE_CHECKING:
    from torch import nn

    from remat.probe.simulated.log import Log


def load_in_four_bits(log: Log, model: nn.Module) -> None:
    """Rewrites how the log begins: `model` was tracked as it stands, its parameters and then its buffers."""
    tensors = [*model.parameters(), *model.buffers()]
    numbers = {id(tensor): number for number, tensor in enumerate(tensors, 1)}
    linear = {name.removesuffix(".base"): m for name, m in model.named_modules() if isinstance(m, Linear4bit)}
    weights = {f"{name}.weight": layer for name, layer in linear.items()}
    packed = {id(part) for layer in linear.values() for part in (layer.packed, layer.scales, layer.code)}
    adapters = {id(p) for p in model.parameters() if p.requires_grad}
    plain = {
        name.replace(".base.", "."): parameter
        for name, parameter in model.named_parameters()
        if id(parameter) not in packed | adapters
    }
    half = sum(p.numel() * 2 for p in plain.values())
    events = _passing(log, half + sum(m.in_features * m.out_features // 2 for m in linear.values()))
    halves = {}
    for name in sorted([*weights, *plain], key=_as_transformers_sorts):
        if name in plain:
            halves[name] = _taken(log, plain[name].numel() * 2, events)
            continue
        layer = weights[name]
        whole = _taken(log, layer.in_features * layer.out_features * 2, events)
        events += [numbers[id(part)] for part in (layer.scales, layer.packed, layer.code)]
        events.append(-whole)
    for name, parameter in plain.items():
        events += [numbers[id(parameter)], -halves[name]]
    events += [number for tensor, number in numbers.items() if tensor in adapters or number not in events]
    begins = log.marks[0].event
    log.events[:begins] = events
    log.marks[:] = [Mark(mark.event + len(events) - begins, mark.phase, mark.step) for mark in log.marks]


def _as_transformers_sorts(name: str) -> list[tuple[int, int, str]]:
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in name.split(".")]


def _passing(log: Log, size: int) -> list[int]:
    events: list[int] = []
    number = _taken(log, size, events)
    return [*events, -number]


def _taken(log: Log, size: int, events: list[int]) -> int:
    log.allocations.append(Allocation(size, "load", 0, "", None, "loading", recomputing=False, category="temporaries"))
    events.append(len(log.allocations))
    return len(log.allocations)
