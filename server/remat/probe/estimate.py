"""What one variant of a model needs: two steps on fake tensors, traced, replayed and summed up."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from typing import TYPE_CHECKING

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from remat.probe.checkpoint_calls import checkpoint_calls
from remat.probe.checkpointed import inactive_because, kept, recomputed, saved_by_module, with_submodules
from remat.probe.cpu import cpu_effects, cpu_scratch
from remat.probe.cuda import cuda_effects
from remat.probe.fakes import fake_friendly, plain_masks
from remat.probe.messages import AS_WRITTEN, LineBytes, ModuleBytes, Range, VariantResult
from remat.probe.modules import Modules, watching
from remat.probe.replay import alive_at, peaks_for_cpu, peaks_for_cuda, settle_categories, timeline
from remat.probe.step import run_steps
from remat.probe.trace import Trace
from remat.probe.variants import apply_variant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from torch import nn

    from remat.probe.built import Built
    from remat.probe.checkpoint_calls import Call
    from remat.probe.messages import Device, Variant
    from remat.probe.replay import Peaks
    from remat.probe.trace import Log


def estimate(built: Built, variant: Variant, device: Device, gpu: str | None = None) -> VariantResult:
    """The figures of two steps of `variant` on `device`, computed without it.

    Raises `CannotApplyError` when the variant doesn't fit, and whatever the user's model raises.
    """
    trace = Trace()
    with contextlib.ExitStack() as world:
        world.enter_context(fake_friendly())
        world.enter_context(FakeTensorMode(allow_non_fake_inputs=True))
        model = built.make_model()
        if built.training:
            model.train()
        model, policy = apply_variant(model, variant)
        modules = Modules(model)
        _track_model(model, trace)
        world.enter_context(plain_masks())
        if device == "cuda":
            trace.scratch = world.enter_context(cuda_effects(trace, gpu))
        else:
            world.enter_context(cpu_effects(trace))
            trace.scratch = cpu_scratch
        calls = world.enter_context(checkpoint_calls(trace, modules, policy))
        world.enter_context(watching(trace, modules))
        world.enter_context(trace)
        run_steps(built, variant, model, trace)
    settle_categories(trace.log)
    peaks = peaks_for_cpu(trace.log) if device == "cpu" else peaks_for_cuda(trace.log)
    return _result(built, variant, trace.log, modules, calls, peaks)


def _track_model(model: nn.Module, trace: Trace) -> None:
    for parameter in model.parameters():
        trace.track(parameter, "parameter", "parameters")
    for buffer in model.buffers():
        trace.track(buffer, "buffer", "buffers")


def _result(
    built: Built, variant: Variant, log: Log, modules: Modules, calls: Iterable[Call], peaks: Peaks
) -> VariantResult:
    saved = saved_by_module(log)
    wanted = variant.checkpointing not in {AS_WRITTEN, "none"}
    return VariantResult(
        name=variant.name,
        kind="estimated",
        allocated_bytes=peaks.allocated,
        reserved_bytes=peaks.reserved,
        process_bytes=None,
        peak_phase=peaks.phase,
        phases=peaks.phases,
        saved_activation_bytes=sum(saved.values()),
        by_category=alive_at(log, peaks.event),
        by_line=_by_line(log),
        by_module=_by_module(modules, saved),
        recompute_flops_ratio=_ratio(log),
        step_seconds=None,
        checkpointed=recomputed(modules),
        not_checkpointed=kept(modules, saved),
        active=bool(modules.recomputed),
        inactive_because=inactive_because(modules, calls, wanted=wanted),
        assumptions=(*built.assumptions, *(_times(str(what), count) for what, count in log.assumed.items())),
        verified=torch.__version__.startswith("2.13."),
        timeline=timeline(log, peaks.event),
    )


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
    return sum(p.numel() * p.element_size() for p in parameters.values())


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
