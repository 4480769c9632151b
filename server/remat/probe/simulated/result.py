"""What the log of a step says, summed up: by category, line and module, and what checkpointing did."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch

from remat.probe.messages import AS_WRITTEN, LineBytes, ModuleBytes, Range, VariantResult
from remat.probe.simulated.checkpointed import inactive_because, kept, recomputed, saved_by_module, with_submodules
from remat.probe.simulated.replay import alive_at, timeline
from remat.probe.simulated.variants import adapters_assumed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from remat.probe.built import Built
    from remat.probe.messages import Variant
    from remat.probe.simulated.checkpoint_calls import Call
    from remat.probe.simulated.log import Log
    from remat.probe.simulated.modules import Modules
    from remat.probe.simulated.replay import Peaks


@dataclass(frozen=True, slots=True)
class Traced:
    """What was seen of the steps of one variant."""

    log: Log
    """with its categories settled"""
    modules: Modules
    calls: tuple[Call, ...]


def result_of(
    built: Built, variant: Variant, traced: Traced, peaks: Peaks, kind: Literal["estimated", "measured"]
) -> VariantResult:
    log, modules = traced.log, traced.modules
    saved = saved_by_module(log)
    wanted = variant.checkpointing not in {AS_WRITTEN, "none"}
    return VariantResult(
        name=variant.name,
        kind=kind,
        allocated_bytes=peaks.allocated,
        reserved_bytes=peaks.reserved,
        process_bytes=None,
        peak_phase=peaks.phase,
        phases=peaks.phases,
        saved_activation_bytes=sum(saved.values()),
        by_category=alive_at(log, peaks.event) if kind == "measured" else _by_category(log, peaks),
        by_line=_by_line(log),
        by_module=_by_module(modules, saved),
        recompute_flops_ratio=_ratio(log),
        step_seconds=None,
        checkpointed=recomputed(modules),
        not_checkpointed=kept(modules, saved),
        active=bool(modules.recomputed),
        inactive_because=None
        if variant.checkpointing == "none"
        else inactive_because(modules, traced.calls, wanted=wanted),
        assumptions=(
            *built.assumptions,
            *adapters_assumed(variant),
            *(_times(str(what), count) for what, count in log.assumed.items()),
        ),
        verified=torch.__version__.startswith("2.13."),
        timeline=timeline(log, peaks.event),
        world_size=variant.world_size,
        grad_accum=variant.grad_accum or built.grad_accum,
    )


def _by_category(log: Log, peaks: Peaks) -> dict[str, int]:
    """What is alive at the peak, and what the allocator hands out beyond it: the ends of blocks it does not split."""
    alive = alive_at(log, peaks.event)
    beyond = peaks.allocated - sum(alive.values())
    return alive | {"rounding": beyond} if beyond > 0 else alive


def _times(text: str, count: int) -> str:
    return text if count == 1 else f"{text} ({count} times)"


def _by_line(log: Log) -> tuple[LineBytes, ...]:
    total: dict[tuple[str, int], int] = defaultdict(int)
    for index in log.kept:
        allocation = log.allocations[index]
        if allocation.line is not None and allocation.category == "activations":
            total[allocation.line] += allocation.bytes
    lines = [LineBytes(path, line, size) for (path, line), size in total.items()]
    return tuple(sorted(lines, key=lambda line: -line.bytes))


def _by_module(modules: Modules, saved: dict[str, int]) -> tuple[ModuleBytes, ...]:
    around = with_submodules(saved)
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name in modules.by_name:
        groups[modules.kind(name)].append(name)
    return tuple(
        ModuleBytes(place, kind, len(names), _total(modules, names), _sum(names, lambda name: around.get(name, 0)))
        for (place, kind), names in groups.items()
    )


def _total(modules: Modules, names: Iterable[str]) -> int:
    parameters = {id(p): p for name in names for p in modules.by_name[name].parameters()}
    held = (getattr(p, "_local_tensor", p) for p in parameters.values())  # of a DTensor what this rank has
    return sum(p.numel() * p.element_size() for p in held)


def _sum(names: Iterable[str], value: Callable[[str], int]) -> int:
    return sum(value(name) for name in names)


def _ratio(log: Log) -> Range:
    """From what ran again, to all of what was checkpointed run again (early stop spares the last operators)."""
    again = log.flops.get("recompute", 0.0)
    whole = log.flops.get("checkpointed", 0.0)
    once = log.flops.get("forward", 0.0) + log.flops.get("backward", 0.0) + log.flops.get("optimizer", 0.0)
    if once == 0.0:
        return Range(1.0, 1.0)
    return Range(1 + again / once, 1 + max(again, whole) / once)
