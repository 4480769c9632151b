"""What one variant of a model needs: two steps on fake tensors, traced, replayed and summed up."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from remat.probe.calibration import default_path, load
from remat.probe.gpus import UNKNOWN, as_measured, beside_the_allocator, card
from remat.probe.messages import Range
from remat.probe.ranks.training import ranks_of
from remat.probe.simulated.checkpoint_calls import checkpoint_calls
from remat.probe.simulated.cpu import cpu_effects
from remat.probe.simulated.cuda import cuda_effects
from remat.probe.simulated.cuda.architecture import is_known
from remat.probe.simulated.cuda.layouts import layouts_of
from remat.probe.simulated.cuda.there import a_gpu_is_there
from remat.probe.simulated.fakes import OneDevice, fake_friendly, plain_masks
from remat.probe.simulated.kernels import whole_recurrent_layers
from remat.probe.simulated.lenient import Assumed
from remat.probe.simulated.log import of_lane
from remat.probe.simulated.modules import Modules, watching
from remat.probe.simulated.packed import packed_sequences
from remat.probe.simulated.replay import peaks_for_cpu, peaks_for_cuda, settle_categories
from remat.probe.simulated.result import Traced, result_of
from remat.probe.simulated.self_check import SMALL, SMALL_VARIANT, agrees, is_tested
from remat.probe.simulated.step import Loop, SideBySide, run_steps
from remat.probe.simulated.trace import Trace
from remat.probe.simulated.variants import apply_variant

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import nn

    from remat.probe.built import Built
    from remat.probe.messages import Device, Variant, VariantResult
    from remat.probe.simulated.log import Log


def estimate(built: Built, variant: Variant, device: Device, gpu: str | None = None) -> VariantResult:
    """The figures of two steps of `variant` on `device`, computed without it.

    Raises `CannotApplyError` when the variant doesn't fit, and whatever the user's model raises.
    """
    return estimated(built, variant, simulate(built, variant, device, gpu), device, gpu)


def estimated(built: Built, variant: Variant, traced: Traced, device: Device, gpu: str | None = None) -> VariantResult:
    """The figures of what `simulate` saw."""
    peaks = peaks_for_cpu(traced.log) if device == "cpu" else peaks_for_cuda(traced.log)
    result = result_of(built, variant, traced, peaks, "estimated")
    return replace(
        result,
        process_bytes=_process(peaks.reserved, gpu, variant.world_size),
        assumptions=(*result.assumptions, *(_assumed_of_cuda(traced.log, gpu) if device == "cuda" else ())),
        verified=is_tested() or (variant.world_size is None and _agrees()),
    )


@cache
def _agrees() -> bool:
    """On a version of torch that is not tested, the probe proves itself first."""
    return agrees(peaks_for_cpu(simulate(SMALL, SMALL_VARIANT, "cpu").log).allocated)


def _process(reserved: int | None, gpu: str | None, ranks: int | None) -> Range | None:
    """What the driver shows: what is reserved, the context of the GPU, as measured here if it was, and NCCL's part."""
    if reserved is None:
        return None
    known = card(gpu) if gpu else None
    beside = beside_the_allocator(as_measured(known, load(default_path())) if known else UNKNOWN, ranks)
    return Range(reserved + beside.low, reserved + beside.high)


def _assumed_of_cuda(log: Log, gpu: str | None) -> Iterator[str]:
    if not is_known(gpu):
        yield "the GPU is not named or not known: kernels and workspaces are those of an A100"
    ran = {allocation.operator for allocation in log.allocations}
    if "aten::convolution" in ran:
        yield "cuDNN's passing workspaces for convolutions are not counted"
    if any(name.startswith("aten::_fft_") for name in ran):
        yield "cuFFT's passing workspaces are taken to be as large as the data (its documentation: 1 to 8 times)"
    if "aten::mkldnn_rnn_layer" in ran:
        yield "what cuDNN keeps of a recurrent layer is taken to be what oneDNN keeps"


def simulate(built: Built, variant: Variant, device: Device, gpu: str | None = None) -> Traced:
    """The log of two steps on fake tensors. Raises what `estimate` does."""
    (traced,) = side_by_side(built, variant, (variant.optimizer,), device, gpu)
    return traced


def side_by_side(
    built: Built, variant: Variant, optimizers: tuple[str, ...], device: Device, gpu: str | None = None
) -> tuple[Traced, ...]:
    """What `simulate` sees of `variant` with each of these optimizers. Where there are several, none of them may be
    `none`: its gradients would stay. Raises what `estimate` does.
    """
    trace = Trace()
    with contextlib.ExitStack() as world:
        world.enter_context(fake_friendly(trace.assume))
        world.enter_context(packed_sequences(trace.assume))
        world.enter_context(layouts_of(device))
        ranks = world.enter_context(ranks_of(variant, trace, device))
        trace.fake = world.enter_context(OneDevice(allow_non_fake_inputs=True))
        if device == "cuda":
            world.enter_context(a_gpu_is_there(gpu))
        model = built.make_model()
        if built.training:
            model.train()
        model, policy = apply_variant(model, variant)
        ranks.place(model)
        modules = Modules(model)
        track_model(model, trace)
        ranks.track(model)
        world.enter_context(plain_masks())
        world.enter_context(whole_recurrent_layers())
        if device == "cuda":
            world.enter_context(cuda_effects(trace, gpu))
        else:
            world.enter_context(cpu_effects(trace))
        calls = world.enter_context(checkpoint_calls(trace, modules, policy))
        world.enter_context(watching(trace, modules))
        world.enter_context(trace)
        several = SideBySide(optimizers, trace.apart) if len(optimizers) > 1 else None
        accumulated = min(variant.grad_accum or built.grad_accum, 2)  # a third batch finds what the second found
        as_run = replace(ranks.variant, optimizer=optimizers[0], grad_accum=accumulated)
        run_steps(built, as_run, model, trace, Loop(side_by_side=several))
        ranks.tell(model)
    return tuple(Traced(log, modules, tuple(calls)) for log in _logs(trace, optimizers))


def _logs(trace: Trace, optimizers: tuple[str, ...]) -> Iterator[Log]:
    """What was seen with each of the optimizers, all of it known now."""
    trace.log.assumed |= {Assumed(said, None): 1 for said in trace.host.said()}
    settle_categories(trace.log)
    if len(optimizers) == 1:
        yield trace.log
    else:
        yield from (of_lane(trace.log, lane) for lane in range(len(optimizers)))


def track_model(model: nn.Module, trace: Trace) -> None:
    for parameter in model.parameters():
        trace.track(parameter, "parameter", "parameters")
    for buffer in model.buffers():
        trace.track(buffer, "buffer", "buffers")
