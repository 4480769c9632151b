"""Memory ran out on the device: capacity, fragmentation, another process, a library's workspace."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from remat.diagnose.signature import Signature

if TYPE_CHECKING:
    from collections.abc import Callable

    from remat.diagnose.signature import Facts, Seen

_UNITS = {
    "B": 1,
    "bytes": 1,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "TiB": 1 << 40,
    "kB": 1 << 10,
    "MB": 1 << 20,
    "GB": 1 << 30,
}  # MPS prints binary multiples under decimal names
_OTHERS = re.compile(r"Process \d+ has (?P<size>[\d.]+ \w+) memory in use")
_OWN = re.compile(r"this process has (?P<size>[\d.]+ \w+) memory in use")
_SIZE = r"[\d.]+ (?:[KMGT]iB|bytes|B)"
_OOM = (
    rf"out of memory\. Tried to allocate (?P<asked>{_SIZE})"
    rf"(?:[\s\S]{{0,60}}?[GNX]PU (?P<gpu>\d+)(?: has a total capacit?y of|;) (?P<total>{_SIZE})(?: total capacity; "
    rf"(?P<old_allocated>{_SIZE}) "
    rf"already allocated; (?P<old_free>{_SIZE}) free; (?P<old_reserved>{_SIZE}) reserved)?(?: of which "
    rf"(?P<free>{_SIZE}) is free)?)?"
    rf"(?:[\s\S]{{0,800}}?Of the allocated memory (?P<allocated>{_SIZE}) is allocated by PyTorch, and "
    rf"(?P<unused>{_SIZE}) is reserved)?"
)
_MPS = (
    r"|MPS backend out of memory \(MPS allocated: (?P<allocated2>[\d.]+ \wB), other allocations: (?P<beside>[\d.]+ \wB)"
    r", max allowed: (?P<total2>[\d.]+ \wB)\)\. Tried to allocate (?P<asked2>[\d.]+ (?:\wB|bytes))"
)
_ASYNC = (
    r"|Allocation on device(?: \d+)? would exceed allowed memory\. \(out of memory\)\s+Currently allocated\s+: "
    r"(?P<allocated3>[\d.]+ \w+)\s+Requested\s+: (?P<asked3>[\d.]+ \w+)\s+Device limit\s+: (?P<total3>[\d.]+ \w+)\s+"
    r"Free \(according to CUDA\): ?(?P<free2>[\d.]+ \w+)"
)
_WHOLE = re.compile(_OOM)
_TYPES = ("out of memory. Tried to allocate", "MPS backend out of memory", "would exceed allowed memory")
_TEXT = "CUDACachingAllocator.cpp"
_LOG = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {0}. GPU 0 has a total capacity of 79.15 GiB "
    "of which {1} is "
    "free. {2}Including non-PyTorch memory, this process has {3} memory in use. Of the allocated memory {4} is "
    "allocated by "
    "PyTorch, and {5} is reserved by PyTorch but unallocated."
)
_STEP = """\
Traceback (most recent call last):
  File "/home/dev/proj/fit.py", line 191, in main
    {call}
  File "{path}", line 149, in {function}
    x = torch.zeros_like(p)
"""


def size(text: str | None) -> float:
    """Bytes of `1.46 GiB`; 0 for None."""
    if not text:
        return 0.0
    number, unit = text.split()
    try:
        return float(number) * _UNITS.get(unit, 1)
    except ValueError:
        return 0.0


def _said(seen: Seen) -> Facts:
    facts = {**seen.facts, **_unwrapped(seen.text)}
    facts.setdefault("free", facts.get("old_free", ""))
    if "old_reserved" in facts:
        facts["allocated"] = facts["old_allocated"]
        spare = max(size(facts["old_reserved"]) - size(facts["old_allocated"]), 0.0)
        facts["unused"] = f"{spare / _UNITS['GiB']:.2f} GiB"
    listed = sorted(size(found["size"]) for found in _OTHERS.finditer(seen.text))
    own = found["size"] if (found := _OWN.search(seen.text)) else ""
    held = size(facts.get("allocated")) + size(facts.get("unused"))
    if not own and held and (may_be := [one for one in listed if one >= held]):
        listed.remove(may_be[0])  # in a container a process does not find its own id in the list
    facts["others"] = f"{sum(listed) / _UNITS['GiB']:.2f} GiB"
    facts["own"] = own or facts.get("allocated", "")
    numbers = f"asked for {facts['asked']}"
    if "total" in facts:
        numbers += f", {facts['free']} of {facts['total']} free" if facts["free"] else f" of {facts['total']}"
    if "unused" in facts:
        numbers += f"; {facts['allocated']} allocated by PyTorch, {facts['unused']} reserved but unallocated"
    elif "allocated" in facts:
        numbers += f"; {facts['allocated']} allocated by PyTorch"
    facts["numbers"] = numbers
    return facts


def _unwrapped(text: str) -> Facts:
    """What a message says that rich, or a terminal, broke into lines."""
    found = _WHOLE.search(" ".join(text.split())) if "\n" in text else None
    return {name: value for name, value in found.groupdict().items() if value is not None} if found else {}


def _variant(seen: Seen) -> str:
    """Which of the kinds the numbers and the frames make it."""
    facts = _said(seen)
    asked, unused, allocated = size(facts["asked"]), size(facts.get("unused")), size(facts.get("allocated"))
    others = size(facts["others"])
    if others > size(facts["own"]) and others > 0:
        return "other_process"
    if unused >= asked and unused >= 0.1 * (allocated + unused):
        return "fragmentation"
    if re.search(r"/optim/\S+:|\\optim\\\S+:|:_init_group$|:_init_state|/apex/optimizers/", seen.frames, re.MULTILINE):
        return "optimizer_state"
    if re.search(r":(?:\w*eval\w*|predict\w*|prediction_\w+|\w*validat\w*|test_step|test)$", seen.frames, re.MULTILINE):
        return "eval_accumulation"
    return "capacity"


def _only(variant: str) -> Callable[[Seen], Facts | None]:
    def read(seen: Seen) -> Facts | None:
        return _said(seen) if _variant(seen) == variant else None

    return read


def _oom(variant: str, cause: str, fix: str, verify: str, example: str) -> Signature:
    return Signature(
        id=f"mem.cuda_oom.{variant}",
        words=_TYPES,
        pattern=_OOM + _MPS + _ASYNC,
        read=_only(variant),
        cause=cause,
        fix=fix,
        verify=verify,
        sources=(_TEXT,),
        examples=(example,),
        extra={"total": "what the device has"},
        rules=("checkpoint-skips-layers", "checkpoint-with-kv-cache") if variant == "capacity" else (),
    )


SIGNATURES = (
    _oom(
        "capacity",
        "The GPU is out of memory: {numbers}. What is in use is really in use; the allocator's settings would "
        "not help.",
        "Reduce what a step keeps: activation checkpointing, a smaller micro-batch or shorter sequences (the "
        "longest batch "
        "decides), sharding (FSDP, ZeRO), lower-precision states.",
        "print(torch.cuda.max_memory_allocated() / 2**30, 'GiB') after one step: it stays below {total}",
        _LOG.format("2.50 GiB", "1.02 GiB", "", "78.11 GiB", "75.90 GiB", "1.30 GiB"),
    ),
    _oom(
        "fragmentation",
        "The GPU is out of memory by fragmentation: {numbers}. The request would fit into what PyTorch holds "
        "but cannot use.",
        "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True (newer versions call it PYTORCH_ALLOC_CONF); bucket "
        "sequence lengths so that sizes repeat.",
        "torch.cuda.memory_stats()['inactive_split_bytes.all.peak'] falls with expandable_segments:True",
        _LOG.format("1.46 GiB", "612.00 MiB", "", "78.55 GiB", "54.20 GiB", "23.60 GiB"),
    ),
    _oom(
        "other_process",
        "The GPU is out of memory because other processes hold {others} of it: {numbers}.",
        "Free the GPU (stop the other process) or use another device (CUDA_VISIBLE_DEVICES).",
        "nvidia-smi --query-compute-apps=pid,used_memory --format=csv",
        _LOG.format(
            "2.00 GiB", "1.00 GiB", "Process 4120 has 70.10 GiB memory in use. ", "8.00 GiB", "7.00 GiB", "0.30 GiB"
        ),
    ),
    _oom(
        "optimizer_state",
        "The GPU is out of memory while the optimizer makes its state (Adam keeps two tensors per parameter, "
        "allocated at the "
        "first step): {numbers}.",
        "Shard the optimizer states (ZeRO, FSDP), use 8-bit Adam, or train fewer parameters (LoRA): they are "
        "allocated at the "
        "first step and stay.",
        "run one full step including optimizer.step() and read torch.cuda.max_memory_allocated()",
        _STEP.format(
            call="optimizer.step()",
            path="/venv/lib/python3.11/site-packages/torch/optim/adamw.py",
            function="_init_group",
        )
        + _LOG.format("112.00 MiB", "40.00 MiB", "", "78.11 GiB", "77.60 GiB", "180.00 MiB"),
    ),
    _oom(
        "eval_accumulation",
        "The GPU is out of memory in evaluation, not in training: {numbers}. Predictions (logits) are kept on "
        "the device, or "
        "evaluation records gradients.",
        "Evaluate under torch.no_grad(), move logits to the CPU per batch (eval_accumulation_steps, "
        "preprocess_logits_for_metrics), "
        "use a smaller evaluation batch.",
        "run the evaluation alone and read torch.cuda.max_memory_allocated()",
        _STEP.format(call="evaluate(model)", path="/home/dev/proj/evaluation.py", function="evaluate")
        + _LOG.format("7.83 GiB", "1.02 GiB", "", "78.11 GiB", "72.31 GiB", "2.10 GiB"),
    ),
    Signature(
        id="mem.cuda_oom.library",
        words=(
            "CUBLAS_STATUS_ALLOC_FAILED",
            "CUDNN_STATUS_ALLOC_FAILED",
            "CUDA error: out of memory",
            "CUDA driver error: out of memory",
            "Cuda failure 2 'out of memory'",
            "Cuda failure 'out of memory'",
        ),
        pattern=r"(?P<status>CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_ALLOC_FAILED|Cuda failure (?:2 )?'out of "
        r"memory'|CUDA (?:driver )?error: out of memory)",
        cause="A CUDA library could not allocate its own workspace ({status}): the GPU was full outside "
        "PyTorch's allocator.",
        fix="Leave headroom: a smaller batch, torch.cuda.set_per_process_memory_fraction, or create the handle "
        "before memory is "
        "full.",
        verify="print(torch.cuda.mem_get_info()) in the program, just before the call",
        sources=("CUDA library status names",),
        examples=("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",),
    ),
)
