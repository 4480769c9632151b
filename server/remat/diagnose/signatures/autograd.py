"""Autograd refused: no graph, a graph used up, or a value overwritten that backward needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from remat.diagnose.report import Missing
from remat.diagnose.signature import Signature

if TYPE_CHECKING:
    from remat.diagnose.signature import Facts, Seen

_CPU = "string in libtorch_cpu.so, torch 2.13.0"
_NO_GRAPH = "does not require grad and does not have a grad_fn"


def _after_warning(seen: Seen) -> Facts | None:
    return seen.facts if "said" in seen.facts or "no_grad_inputs" in seen.notices else None


def _without_warning(seen: Seen) -> Facts | None:
    return None if "no_grad_inputs" in seen.notices else seen.facts


def _shape(seen: Seen) -> Facts | None:
    facts = dict(seen.facts)
    facts["whose"] = f", {facts['output']} of {facts['op']}," if facts.get("op") else ""
    facts["buffers"] = ""
    told = next(iter(seen.notices.get("anomaly", ())), None)
    if told is not None:
        facts["asked"] = f"read the forward call of {told.facts['op']}, which anomaly mode prints at line {told.line}"
        facts["how"] = f"{facts['asked']}; what changes that tensor behind it is the operation"
        facts["finding"] = f"anomaly mode was on: {facts['asked']}"
    if not facts.get("op") and "," not in facts.get("shape", ","):
        facts["buffers"] = (
            " A one-dimensional tensor that no op produced may be a buffer: under DistributedDataParallel a "
            "second forward "
            "before backward overwrites buffers; then broadcast_buffers=False."
        )
    return facts


SIGNATURES = (
    Signature(
        id="ckpt.no_input_requires_grad",
        words=(_NO_GRAPH, "none of output has requires_grad=True, this checkpoint() is not necessary"),
        pattern=r"element \d+ of (?:tensors|variables) does not require grad and does not have a grad_fn"
        r"|(?P<said>none of output has requires_grad=True, this checkpoint\(\) is not necessary)",
        read=_after_warning,
        cause="The loss has no graph, because reentrant checkpointing dropped it: none of the checkpointed "
        "block's inputs "
        "has requires_grad=True{warned}.",
        fix="Use use_reentrant=False, or make the embedding output require grad (model.enable_input_require_grads()).",
        verify="after one backward: any(p.grad is not None for p in model.parameters())",
        rules=("checkpoint-with-reentrant-true", "checkpoint-without-use-reentrant"),
        extra={"warned": " (torch says so)"},
        sources=("torch/utils/checkpoint.py:92, torch 2.13.0",),
        examples=(
            (
                "/venv/lib/python3.11/site-packages/torch/utils/checkpoint.py:238: UserWarning: None of the inputs "
                "have "
                "requires_grad=True. Gradients will be None\nTraceback (most recent call last):\n"
                '  File "fit.py", line 22, in <module>\n    loss.backward()\n'
                "RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn"
            ),
        ),
    ),
    Signature(
        id="autograd.element0_no_grad",
        words=(_NO_GRAPH,),
        pattern=r"element \d+ of (?:tensors|variables) does not require grad and does not have a grad_fn",
        read=_without_warning,
        cause="backward() was called on a tensor without a graph: nothing it was computed from requires_grad, "
        "or the forward "
        "ran under no_grad, inference_mode or detach.",
        fix="Make the loss depend on a trainable parameter: unfreeze one, or remove "
        "no_grad/inference_mode/detach around the "
        "forward.",
        verify="print(loss.requires_grad, [n for n, p in model.named_parameters() if p.requires_grad][:3])",
        asks=(
            Missing(
                "why the loss has no graph: all parameters frozen, no_grad/inference_mode around the forward, "
                "or detach",
                "each has another fix, and the source around the forward call is not in the log",
                "print(loss.requires_grad, loss.grad_fn, any(p.requires_grad for p in model.parameters()))",
            ),
        ),
        rules=("checkpoint-with-reentrant-true", "checkpoint-without-use-reentrant"),  # drop the graph, too
        sources=(_CPU,),
        examples=("RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn",),
    ),
    Signature(
        id="autograd.backward_twice",
        words=("backward through the graph a second time",),
        pattern=r"Trying to backward through the graph a second time",
        cause="backward went through the same graph a second time; its saved tensors were freed by the first.",
        fix="Call backward once per forward: recompute the loss, or detach state (an RNN's hidden state, a reused "
        "sub-graph) that is carried from step to step.",
        verify="run two steps",
        sources=(_CPU,),
        examples=(
            (
                "RuntimeError: Trying to backward through the graph a second time (or directly access saved tensors "
                "after they "
                "have already been freed)."
            ),
        ),
    ),
    Signature(
        id="autograd.inplace_version",
        words=("modified by an inplace operation",),
        pattern=r"modified by an inplace operation: \[(?P<kind>[\w.]+) (?:\[(?P<shape>[\d, ]*)\])?\](?:, which is "
        r"(?P<output>output \d+)"
        r" of (?P<op>\w+),)? is at version (?P<version>\d+); expected version (?P<expected>\d+)",
        read=_shape,
        extra={
            "how": "one run with torch.autograd.set_detect_anomaly(True): anomaly mode prints the forward line",
            "finding": "find it with torch.autograd.set_detect_anomaly(True)",
        },
        cause="A value that backward needs was overwritten by an in-place operation: the {kind} of shape "
        "[{shape}]{whose} is at "
        "version {version}, backward saved version {expected}.{buffers}",
        fix="Replace the in-place operation (+=, mul_, relu(inplace=True), x[...] = ...) by an out-of-place "
        "one; {finding}. Under DistributedDataParallel with buffers: "
        "broadcast_buffers=False.",
        verify="one step under torch.autograd.set_detect_anomaly(True)",
        asks=(
            Missing(
                "which op modified the tensor of shape [{shape}] (and whether the module is wrapped in DDP with "
                "buffers and "
                "called twice)",
                "the message names what was overwritten, not the operation that did it",
                "{how}",
            ),
        ),
        sources=(_CPU,),
        examples=(
            (
                "RuntimeError: one of the variables needed for gradient computation has been modified by an inplace "
                "operation: "
                "[torch.FloatTensor [4, 8]], which is output 0 of Mul, is at version 1; expected version 0 instead."
            ),
        ),
    ),
    Signature(
        id="autograd.inplace_leaf",
        words=("is being used in an in-place operation",),
        pattern=r"a (?:view of a )?leaf Variable that requires grad is being used in an in-place operation",
        cause="A parameter (a leaf that requires grad) was changed in place while gradients were recorded.",
        fix="Wrap the initialisation or update in torch.no_grad().",
        verify="rerun the same line under torch.no_grad()",
        sources=(_CPU,),
        examples=("RuntimeError: a leaf Variable that requires grad is being used in an in-place operation.",),
    ),
    Signature(
        id="autograd.anomaly_nan",
        words=("returned nan values in its",),
        pattern=r"Function '(?P<op>\w+)' returned nan values in its (?P<output>\d+)th output",
        cause="Anomaly mode found nan: the backward of {op} produced it in output {output}; the forward line is "
        "printed above "
        "the error.",
        fix="Guard the op that the forward frame shows (clamp before sqrt/log/division, eps, a mask that leaves "
        "at least one "
        "element).",
        verify="the same step under torch.autograd.set_detect_anomaly(True) is silent",
        sources=("torch/csrc/autograd/engine.cpp, torch 2.13.0",),
        examples=("RuntimeError: Function 'SqrtBackward0' returned nan values in its 0th output.",),
    ),
    Signature(
        id="autograd.inference_tensor",
        words=("Inference tensors cannot be saved for backward", "Inplace update to inference tensor"),
        pattern=r"Inference tensors cannot be saved for backward|Inplace update to inference tensor outside",
        cause="A tensor made under torch.inference_mode() reached a computation that records gradients, or was changed "
        "outside that mode.",
        fix="Use torch.no_grad() instead of inference_mode, or clone() the tensor outside it.",
        verify="rerun one training step",
        sources=(_CPU,),
        examples=(
            "RuntimeError: Inference tensors cannot be saved for backward. To work around you can make a clone.",
        ),
    ),
)
