"""Activation checkpointing: the forward that runs again in backward did not repeat the first, or could not."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from remat.diagnose.signature import Signature

if TYPE_CHECKING:
    from remat.diagnose.signature import Facts, Seen

_TORCH = "torch/utils/checkpoint.py, torch 2.13.0"
_DEBUG = "with torch.utils.checkpoint.set_checkpoint_debug_enabled(True): run one step and compare the two op lists"


def _not_partitioned(seen: Seen) -> Facts | None:
    if "refused" in seen.facts:
        return _refused(seen)
    recomputed, saved = seen.facts.get("recomputed", ""), seen.facts.get("saved", "")
    if recomputed == "[0]" and saved != "[0]":
        return None
    before, after = seen.facts.get("saved_dtype", ""), seen.facts.get("recomputed_dtype", "")
    if not saved:
        why = "which tensors these are is cut off"
    elif before and after and before != after:
        why = f"dtype {before} in forward, {after} when recomputed: autocast was on in one pass only"
    else:
        why = f"shape {saved} in forward, {recomputed} when recomputed"
    return {**seen.facts, "difference": why}


def _refused(seen: Seen) -> Facts | None:
    """An operation that ran in forward met other shapes or dtypes when it was recomputed."""
    if not _RECOMPUTING.search(seen.frames):
        return None
    said = f"recomputing it, an operation that ran in forward said `{seen.facts['refused']}`"
    return {**seen.facts, "difference": said, "variant": ""}


def _partitioned(seen: Seen) -> Facts | None:
    return seen.facts if seen.facts.get("recomputed") == "[0]" and seen.facts.get("saved") != "[0]" else None


# A frame that runs the block again, and no backward of what it computed after that.
_RECOMPUTING = re.compile(
    r"utils/checkpoint\.py:(?:recompute_fn|CheckpointFunction\.backward|backward)$(?![\s\S]{0,20000}autograd/__init__\.py:backward$)",
    re.MULTILINE,
)
_REFUSED = (
    r"|(?P<refused>The size of tensor a \(\d+\) must match .{1,120}|mat1 and mat2 .{1,160}|.{0,80}expected scalar type "
    r".{1,80}|Sizes of tensors must match except.{1,160}|shape '.{1,80}' is invalid for input of size \d+)"
)
_METADATA = (
    r"have different metadata than during the forward pass"
    r"(?:[\s\S]{0,4000}?saved metadata: \{'shape': torch\.Size\((?P<saved>\[[^\]]{0,200}\])\)(?:, 'dtype': "
    r"(?P<saved_dtype>[\w.]+))?"
    r"[\s\S]{0,400}?recomputed metadata: \{'shape': torch\.Size\((?P<recomputed>\[[^\]]{0,200}\])\)"
    r"(?:, 'dtype': (?P<recomputed_dtype>[\w.]+))?)?"
)
_METADATA_LOG = """\
Traceback (most recent call last):
  File "/home/dev/proj/fit.py", line 10, in <module>
    y.sum().backward()
torch.utils.checkpoint.CheckpointError: torch.utils.checkpoint: Recomputed values for the following tensors have \
different metadata than during the forward pass.
tensor at position 0:
saved metadata: {'shape': torch.Size([4, 8]), 'dtype': torch.float32, 'device': device(type='cpu')}
recomputed metadata: {'shape': torch.Size(%s), 'dtype': torch.float32, 'device': device(type='cpu')}
"""
_RECOMPUTED_LOG = """\
Traceback (most recent call last):
  File "/home/dev/proj/fit.py", line 31, in <module>
    loss.backward()
  File "/venv/lib/python3.11/site-packages/torch/autograd/__init__.py", line 395, in backward
    _engine_run_backward(
  File "/venv/lib/python3.11/site-packages/torch/utils/checkpoint.py", line 1183, in unpack_hook
    _run_fn_with_dynamo_disabled(frame.recompute_fn, *args)
  File "/venv/lib/python3.11/site-packages/torch/utils/checkpoint.py", line 1688, in recompute_fn
    fn(*args, **kwargs)
  File "/home/dev/proj/fit.py", line 19, in <lambda>
    x = checkpoint(lambda y: layer(y), x, use_reentrant=False)
RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x16 and 12x4)
"""

SIGNATURES = (
    Signature(
        id="ckpt.metadata_mismatch",
        words=(
            "have different metadata than during the forward pass",
            "must match",
            "mat1 and mat2 ",
            "expected scalar type ",
            "is invalid for input of size",
        ),
        pattern=_METADATA + _REFUSED,
        read=_not_partitioned,
        cause="A checkpointed block{variant} was recomputed in backward and did not repeat its forward: tensors have "
        "different metadata: {difference}.",
        fix="Make the recomputed forward deterministic: no call counter, global state, cache (use_cache=False) or "
        "data-dependent shape inside the checkpointed function, and the same autocast state in both passes; "
        "rerun with "
        "debug=True to see the op that differs.",
        verify=_DEBUG,
        rules=("checkpoint-with-kv-cache", "closure-captures-loop-variable"),
        sources=(_TORCH,),
        extra={"variant": " (use_reentrant=False)"},
        examples=(_METADATA_LOG % "[3, 8]", _RECOMPUTED_LOG),
    ),
    Signature(
        id="ckpt.zero3_partitioned_param",
        words=("have different metadata than during the forward pass",),
        pattern=_METADATA,
        read=_partitioned,
        cause="A checkpointed block was recomputed and met a tensor of shape torch.Size({recomputed}) where "
        "forward saved "
        "{saved}: size 0 is a parameter that ZeRO-3 has partitioned away again.",
        fix="Use a DeepSpeed that gathers frozen parameters during recomputation, or use_reentrant=True for "
        "these blocks "
        "under ZeRO-3.",
        verify="run one step under ZeRO-3 with frozen parameters; python -c 'import deepspeed; "
        "print(deepspeed.__version__)'",
        sources=("deepspeed pull request 8148",),
        examples=(_METADATA_LOG % "[0]",),
    ),
    Signature(
        id="ckpt.num_tensors_mismatch",
        words=("A different number of tensors was saved", "trying to save more tensors during recomputation"),
        pattern=r"(?:A different number of tensors was saved|trying to save more tensors during recomputation)"
        r"(?:[\s\S]{0,400}?during forward: (?P<saved>\d+)[\s\S]{0,80}?during recomputation: (?P<recomputed>\d+))?",
        cause="A checkpointed block saved {saved} tensors in forward and {recomputed} when it was recomputed in "
        "backward: "
        "it took another path (use_reentrant=False checks this).",
        fix="Remove state-dependent branching from the checkpointed function: KV cache (use_cache=False), the "
        "training "
        "flag, counters, random draws outside the preserved generator.",
        verify=_DEBUG,
        rules=("checkpoint-with-kv-cache", "closure-captures-loop-variable"),
        sources=(_TORCH,),
        extra={"saved": "one number of", "recomputed": "another"},
        examples=(
            (
                "torch.utils.checkpoint.CheckpointError: torch.utils.checkpoint: A different number of tensors was "
                "saved during"
                " the original forward and recomputation.\nNumber of tensors saved during forward: 5\n"
                "Number of tensors saved during recomputation: 2."
            ),
        ),
    ),
    Signature(
        id="ckpt.unpack_twice",
        words=("Unpack is being triggered for a tensor that was already unpacked once",),
        pattern=r"Unpack is being triggered for a tensor that was already unpacked once",
        cause="A tensor saved inside a checkpointed block was unpacked twice in one backward: something reads "
        "saved_tensors again.",
        fix="Read ctx.saved_tensors once in the custom autograd Function's backward and keep the result.",
        verify="run one backward of the block alone",
        sources=(_TORCH,),
        examples=(
            (
                "torch.utils.checkpoint.CheckpointError: torch.utils.checkpoint: Unpack is being triggered for a "
                "tensor that was "
                "already unpacked once. If you are calling ctx.saved_tensors in backward, make sure to do so only once."
            ),
        ),
    ),
    Signature(
        id="ckpt.reentrant_grad_inputs",
        words=("is incompatible with .grad() or passing an `inputs`", "Checkpointing is not compatible with .grad()"),
        pattern=r"(?:is incompatible with|is not compatible with) \.grad\(\)",
        cause="Reentrant checkpointing (use_reentrant=True) cannot serve torch.autograd.grad() or "
        "backward(inputs=...): it "
        "runs a nested backward that fills .grad of everything.",
        fix="Pass use_reentrant=False to checkpoint.",
        verify="rerun the same torch.autograd.grad call",
        rules=("checkpoint-with-reentrant-true", "checkpoint-without-use-reentrant"),
        sources=(_TORCH,),
        examples=(
            (
                "RuntimeError: When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or "
                "passing an "
                "`inputs` parameter to .backward()."
            ),
        ),
    ),
    Signature(
        id="ckpt.use_reentrant_warning",
        words=(),
        pattern="",
        cause="A warning, not a failure: checkpoint was called without use_reentrant.",
        fix="Pass use_reentrant=False explicitly.",
        verify="rerun: the warning is gone",
        rules=("checkpoint-without-use-reentrant",),
        sources=(_TORCH,),
    ),
)
