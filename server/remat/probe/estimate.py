"""What one variant of a model needs: two steps on fake tensors, traced, replayed and summed up."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from torch._subclasses.fake_tensor import FakeTensorMode

from remat.probe.checkpoint_calls import checkpoint_calls
from remat.probe.cpu import cpu_effects, cpu_scratch
from remat.probe.cuda import cuda_effects
from remat.probe.fakes import fake_friendly, plain_masks
from remat.probe.modules import Modules, watching
from remat.probe.replay import peaks_for_cpu, peaks_for_cuda, settle_categories
from remat.probe.result import Traced, result_of
from remat.probe.step import run_steps
from remat.probe.trace import Trace
from remat.probe.variants import apply_variant

if TYPE_CHECKING:
    from torch import nn

    from remat.probe.built import Built
    from remat.probe.messages import Device, Variant, VariantResult


def estimate(built: Built, variant: Variant, device: Device, gpu: str | None = None) -> VariantResult:
    """The figures of two steps of `variant` on `device`, computed without it.

    Raises `CannotApplyError` when the variant doesn't fit, and whatever the user's model raises.
    """
    return estimated(built, variant, simulate(built, variant, device, gpu), device)


def estimated(built: Built, variant: Variant, traced: Traced, device: Device) -> VariantResult:
    """The figures of what `simulate` saw."""
    peaks = peaks_for_cpu(traced.log) if device == "cpu" else peaks_for_cuda(traced.log)
    return result_of(built, variant, traced, peaks, "estimated")


def simulate(built: Built, variant: Variant, device: Device, gpu: str | None = None) -> Traced:
    """The log of two steps on fake tensors. Raises what `estimate` does."""
    trace = Trace()
    with contextlib.ExitStack() as world:
        world.enter_context(fake_friendly())
        world.enter_context(FakeTensorMode(allow_non_fake_inputs=True))
        model = built.make_model()
        if built.training:
            model.train()
        model, policy = apply_variant(model, variant)
        modules = Modules(model)
        track_model(model, trace)
        world.enter_context(plain_masks())
        if device == "cuda":
            world.enter_context(cuda_effects(trace, gpu))
        else:
            world.enter_context(cpu_effects(trace))
            trace.scratch = cpu_scratch
        calls = world.enter_context(checkpoint_calls(trace, modules, policy))
        world.enter_context(watching(trace, modules))
        world.enter_context(trace)
        run_steps(built, variant, model, trace)
    settle_categories(trace.log)
    return Traced(trace.log, modules, tuple(calls))


def track_model(model: nn.Module, trace: Trace) -> None:
    for parameter in model.parameters():
        trace.track(parameter, "parameter", "parameters")
    for buffer in model.buffers():
        trace.track(buffer, "buffer", "buffers")
