"""Number formats: losses that stopped being finite, and the gradient scaler's complaints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from remat.diagnose.report import Missing
from remat.diagnose.signature import Signature

if TYPE_CHECKING:
    from remat.diagnose.signature import Facts, Seen

_SCALER = "torch/amp/grad_scaler.py, torch 2.13.0"
_WHICH = Missing(
    "which op first produced the non-finite value{between} (one step with "
    "torch.autograd.set_detect_anomaly(True), or grad hooks)",
    "the loss shows when it happened, not in which operation",
    "torch.autograd.set_detect_anomaly(True) for one step from the last good checkpoint",
)


def _without_gradients(seen: Seen) -> Facts | None:
    if "why" in seen.facts:
        return {**seen.facts, "why": "no loss was scaled before (scaler.scale was not called)"}
    return {**seen.facts, "why": "none of its parameters has .grad (frozen, unused, or backward not called)"}


SIGNATURES = (
    Signature(
        id="prec.nan_loss",
        words=(
            "found NaN in local forward loss",
            "found Inf in local forward loss",
            "Unexpected result",
            "The loss returned in `training_step` is",
            "Loss became infinite or NaN at iteration",
            ", stopping training",
        ),
        pattern=r"(?:Rank (?P<rank>\d{1,6}), node (?P<node>\S+), device \S+, iteration (?P<step>-?\d{1,18}): "
        r")?Unexpected result (?P<value>\w+)"
        r"|found (?P<value2>NaN|Inf) in local forward loss"
        r"|The loss returned in `training_step` is (?P<value3>nan or inf|nan|inf)"
        r"|Loss became infinite or NaN at iteration=(?P<step2>\d{1,18})"
        r"|Loss is (?P<value4>-?inf|nan), stopping training",
        bare=True,
        cause="The loss became non-finite{at}; what came after (checks, saved checkpoints) is a consequence.",
        fix="Lower the learning rate or add warm-up, clip gradients, use bf16 instead of fp16, and inspect the "
        "batch of that step.",
        verify="rerun from the last good checkpoint under torch.autograd.set_detect_anomaly(True)",
        asks=(_WHICH,),
        sources=("megatron/training.py",),
        extra={"at": "", "between": ""},
    ),
    Signature(
        id="prec.loss_scale_floor",
        words=("Current loss scale already at minimum", "loss scale already at minimum", "Minimum loss scale reached"),
        pattern=r"Current loss scale already at minimum|Minimum loss scale reached",
        bare=True,
        cause="The fp16 loss scale was halved to its minimum: gradients overflow at every step (they are nan or inf).",
        fix="Train in bf16 if the GPU has it; otherwise a lower lr and gradient clipping.",
        verify="the log's overflow messages stop: overflow count 0 over 100 steps",
        sources=("deepspeed/runtime/fp16/loss_scaler.py:259, deepspeed 0.19.8",),
        examples=("Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.",),
    ),
    Signature(
        id="prec.unscale_fp16",
        words=("Attempting to unscale FP16 gradients",),
        pattern=r"Attempting to unscale FP16 gradients",
        cause="GradScaler met float16 gradients: the parameters themselves are fp16, and the scaler needs "
        "float32 (fp32) ones.",
        fix="Keep the master weights in fp32 and use autocast, or train in bf16 without a scaler.",
        verify="{{p.dtype for p in model.parameters() if p.requires_grad}} == {{torch.float32}}",
        sources=(_SCALER,),
        examples=("ValueError: Attempting to unscale FP16 gradients.",),
    ),
    Signature(
        id="prec.unscale_twice",
        words=("unscale_() has already been called",),
        pattern=r"unscale_\(\) has already been called on this optimizer since the last update",
        cause="scaler.unscale_(optimizer) was called twice before scaler.update().",
        fix="Call unscale_ once per optimizer step, and scaler.update() at its end (also when a step is skipped).",
        verify="run two steps",
        sources=(_SCALER,),
        examples=("RuntimeError: unscale_() has already been called on this optimizer since the last update().",),
    ),
    Signature(
        id="prec.no_inf_checks",
        words=("No inf checks were recorded", "but _scale is None"),
        pattern=r"No inf checks were recorded|Attempted \w+ but (?P<why>_scale is None)",
        read=_without_gradients,
        cause="The scaler saw no gradients for this optimizer: {why}.",
        fix="Call scaler.scale(loss).backward() before scaler.step, for parameters of this optimizer that "
        "require grad.",
        verify="any(p.grad is not None for g in optimizer.param_groups for p in g['params'])",
        sources=(_SCALER,),
        examples=(
            "AssertionError: No inf checks were recorded for this optimizer.",
            "AssertionError: Attempted step but _scale is None.  This may indicate your script did not",
        ),
    ),
)
