"""The CUDA driver and runtime: kernels that asserted or faulted, hardware, missing or mismatched devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from remat.diagnose.report import Missing
from remat.diagnose.signature import Facts, Signature

if TYPE_CHECKING:
    from collections.abc import Callable

    from remat.diagnose.signature import Seen

_ASSERT = r"device-side assert triggered|cudaErrorAssert"
_KERNEL = "../aten/src/ATen/native/cuda/{}: block: [7,0,0], thread: [0,0,0] Assertion `{}` failed.\n"
_RAISED = "RuntimeError: CUDA error: device-side assert triggered\n"


def _asserting(kind: str) -> Callable[[Seen], Facts | None]:
    def read(seen: Seen) -> Facts | None:
        lines = seen.notices.get("assertion", ())
        if not lines:
            return seen.facts if kind == "unknown" else None
        first = lines[0]
        what, source = first.facts["what"], first.facts["source"]
        is_target = "n_classes" in what or "Loss" in source or "target_val" in what or "cur_target" in what
        is_index = not is_target and any(
            w in what for w in ("srcIndex", "index out of bounds", "index <", "ind >=", "dstIndex", "idx")
        )
        found = "target" if is_target else "index" if is_index else "unknown"
        said = "index out of bounds" if "index out of bounds" in what else what
        facts = {**seen.facts, "what": said, "kernel": first.facts.get("kernel", "")}
        if found == "unknown":
            facts |= {"which": f" (assertion `{said}` in {source})", "settled": "the assertion is there"}
        if "input_val" in what:
            facts |= _PROBABILITY
        return facts if found == kind else None

    return read


_PROBABILITY = {
    "found": "an input outside [0, 1]",
    "must": "binary_cross_entropy takes probabilities, and nan is none",
    "remedy": "Give BCELoss the output of a sigmoid (and look for nan in it), or use BCEWithLogitsLoss on the logits.",
    "check": "assert torch.isfinite(probs).all() and probs.min() >= 0 and probs.max() <= 1",
}


def _wheel(sm: str) -> str:
    needs = " (CUDA 12.8 or later: a cu128 wheel)" if sm in {"sm_100", "sm_101", "sm_120"} else ""
    return f"Install a wheel whose arch list has {sm}{needs}, or rebuild the extension for it (TORCH_CUDA_ARCH_LIST)"


def _without_capability(seen: Seen) -> Facts | None:
    sized, built = seen.notices.get("sized_up", ()), seen.notices.get("built_for", ())
    if sized:
        has = f"; it was built for {built[0].facts['built']}" if built else ""
        return {
            **seen.facts,
            "arch": f"this GPU is {sized[0].facts['sm']} (its compute capability){has}",
            "settled": "warned",
            "remedy": _wheel(sized[0].facts["sm"]),
        }
    facts = {**seen.facts, "arch": "the GPU's compute capability is not in its arch list"}
    if "HIP error" in seen.text:
        facts["arch"] = "the GPU's gfx target is not in its arch list"
        facts["remedy"] = (
            "Install a ROCm wheel whose arch list has this GPU's gfx target (rocminfo names it), or, for a close "
            "relative of a supported one, set HSA_OVERRIDE_GFX_VERSION"
        )
    return facts


SIGNATURES = (
    Signature(
        id="cuda.device_assert.index",
        words=("device-side assert", "cudaErrorAssert"),
        pattern=_ASSERT,
        read=_asserting("index"),
        asynchronous=True,
        cause="A kernel found an index out of range (assertion `{what}`): an embedding, gather or index with "
        "ids >= the table's size.",
        fix="Align token ids and table: ids must be below vocab_size "
        "(model.resize_token_embeddings(len(tokenizer)), the checkpoint's own "
        "tokenizer, no padding id outside the vocabulary).",
        verify="assert ids.max() < model.get_input_embeddings().num_embeddings; CUDA_LAUNCH_BLOCKING=1 for the "
        "true line",
        sources=("ATen/native/cuda/Indexing.cu", "ATen/native/cuda/IndexKernel.cu"),
        examples=(_KERNEL.format("Indexing.cu:1292: indexSelectSmallIndex", "srcIndex < srcSelectDimSize") + _RAISED,),
    ),
    Signature(
        id="cuda.device_assert.target",
        words=("device-side assert", "cudaErrorAssert"),
        pattern=_ASSERT,
        read=_asserting("target"),
        asynchronous=True,
        cause="A loss kernel found {found} (assertion `{what}`): {must}.",
        fix="{remedy}",
        verify="{check}; CUDA_LAUNCH_BLOCKING=1 for the true line",
        extra={
            "found": "a label out of range",
            "must": "labels must lie in [0, number of classes)",
            "remedy": "Check the labels: target range, ignore_index, and the number of outputs of the last layer.",
            "check": "assert labels.min() >= 0 and labels.max() < num_classes",
        },
        sources=("ATen/native/cuda/Loss.cu", "ATen/native/cuda/NLLLoss2d.cu"),
        examples=(
            _KERNEL.format("Loss.cu:250: nll_loss_forward_reduce_cuda_kernel_2d", "t >= 0 && t < n_classes") + _RAISED,
        ),
    ),
    Signature(
        id="cuda.device_assert.unknown",
        words=("device-side assert", "cudaErrorAssert"),
        pattern=_ASSERT,
        read=_asserting("unknown"),
        weight=1,
        asynchronous=True,
        cause="A CUDA kernel asserted{which}; the traceback shows only where it was noticed.",
        fix="Find the value that the kernel refused: rerun with CUDA_LAUNCH_BLOCKING=1 and read the assertion line "
        "(mostly an index out of range: labels, token ids, gather).",
        extra={"which": ", which one is not in the log"},
        verify="CUDA_LAUNCH_BLOCKING=1 python ... (same command)",
        asks=(
            Missing(
                "the kernel assertion line (…Assertion `…` failed), or a rerun with CUDA_LAUNCH_BLOCKING=1",
                "it says whether an index or a label was out of range; the traceback's line is not the place",
                "CUDA_LAUNCH_BLOCKING=1 on the same command, with stderr kept",
            ),
        ),
        sources=("CUDA runtime error string",),
        examples=(_RAISED,),
    ),
    Signature(
        id="cuda.illegal_memory",
        words=("illegal memory access", "misaligned address"),
        pattern=r"an illegal memory access was encountered|misaligned address",
        asynchronous=True,
        cause="A CUDA kernel accessed memory outside its tensors. The error is asynchronous: the line of the "
        "traceback is where it was "
        "noticed, not where it happened.",
        fix="Find the kernel with CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer; suspect custom kernels, indices, "
        "and tensors with more than "
        "2**31 elements.",
        verify="CUDA_LAUNCH_BLOCKING=1 python ...; compute-sanitizer python ...",
        asks=(
            Missing(
                "which kernel faulted and on which tensor sizes (numel > 2**31?): rerun with "
                "CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer; Xid 31 in "
                "dmesg",
                "asynchronous errors surface at an unrelated later call",
                "CUDA_LAUNCH_BLOCKING=1 on the same command; compute-sanitizer; dmesg -T | grep Xid",
            ),
        ),
        sources=("CUDA runtime error string",),
        bare=True,
        examples=(
            (
                "RuntimeError: CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be "
                "asynchronously reported."
            ),
        ),
    ),
    Signature(
        id="cuda.ecc",
        words=("uncorrectable ECC error encountered", "double bit ECC error", "double-bit ECC error"),
        pattern=r"uncorrectable ECC error encountered|double.bit ECC error",
        asynchronous=True,
        bare=True,
        cause="The GPU reported an uncorrectable ECC error: a hardware fault of its memory, not of the program.",
        fix="Report and drain the node; reset or replace the GPU, then resume from the last checkpoint on another.",
        runnable=True,
        verify="nvidia-smi -q -d ECC,ROW_REMAPPER; dmesg -T | grep Xid",
        sources=("CUDA runtime error string",),
        examples=("RuntimeError: CUDA error: uncorrectable ECC error encountered",),
    ),
    Signature(
        id="cuda.xid_hardware",
        words=(),
        pattern="",
        cause="The driver reported Xid {xid} for the GPU at PCI {pci} ({what}): a hardware or driver fault.",
        fix="Drain the node and reset or replace the GPU at PCI {pci}; resume from the last checkpoint elsewhere.",
        runnable=True,
        verify="dmesg -T | grep Xid; nvidia-smi -q",
        sources=("NVIDIA kernel driver (NVRM) log format",),
        examples=(
            (
                "[Fri Mar 21 02:03:15 2025] NVRM: Xid (PCI:0000:8a:00): 79, pid='<unknown>', name=<unknown>, GPU "
                "has fallen off the bus.\n"
                "RuntimeError: CUDA error: unspecified launch failure"
            ),
        ),
    ),
    Signature(
        id="cuda.no_kernel_image",
        words=("no kernel image is available", "invalid device function"),
        pattern=r"no kernel image is available for execution on the device|error: invalid device function",
        read=_without_capability,
        cause="The installed PyTorch (or extension) has no kernels for this GPU: {arch}.",
        fix="{remedy}.",
        extra={
            "arch": "the GPU's compute capability is not in its arch list",
            "remedy": "Install a wheel whose arch list has this GPU's sm_XX (sm_120 needs CUDA 12.8: cu128 or later), "
            "or rebuild the extension for it (TORCH_CUDA_ARCH_LIST)",
        },
        runnable=True,
        verify="python -c 'import torch; print(torch.cuda.get_device_capability(), torch.cuda.get_arch_list())'",
        asks=(
            Missing(
                "the GPU's compute capability and torch.cuda.get_arch_list()",
                "they decide which wheel or build is needed",
                "python -c 'import torch; print(torch.cuda.get_device_capability(), torch.cuda.get_arch_list())'",
            ),
        ),
        sources=("CUDA runtime error string",),
        examples=("RuntimeError: CUDA error: no kernel image is available for execution on the device",),
    ),
    Signature(
        id="cuda.driver_too_old",
        words=("driver on your system is too old",),
        pattern=r"NVIDIA driver on your system is too old(?: \(found version (?P<version>\d+)\))?",
        cause="The NVIDIA driver (version {version}) is older than this PyTorch's CUDA needs.",
        fix="Update the GPU driver, or install a PyTorch built for an older CUDA.",
        runnable=True,
        verify="nvidia-smi; python -c 'import torch; print(torch.version.cuda)'",
        sources=("torch/csrc/cuda/Module.cpp",),
        extra={"version": "unknown"},
        examples=("RuntimeError: The NVIDIA driver on your system is too old (found version 11040).",),
    ),
    Signature(
        id="cuda.not_compiled",
        words=("Torch not compiled with CUDA enabled",),
        pattern=r"Torch not compiled with CUDA enabled",
        cause="This PyTorch is a CPU build: it was not compiled with CUDA.",
        fix="Install a CUDA wheel of PyTorch in this environment.",
        runnable=True,
        verify="python -c 'import torch; print(torch.__version__, torch.version.cuda)'",
        sources=("torch/cuda/__init__.py:522, torch 2.13.0",),
        examples=("AssertionError: Torch not compiled with CUDA enabled",),
    ),
    Signature(
        id="cuda.invalid_ordinal",
        words=("invalid device ordinal",),
        pattern=r"invalid device ordinal",
        cause="A GPU number was asked for that this process does not see: more processes than visible GPUs, or "
        "a wrong CUDA_VISIBLE_DEVICES.",
        fix="Start at most as many processes as GPUs (--nproc-per-node), and use LOCAL_RANK, not RANK, for the device.",
        runnable=True,
        verify="nvidia-smi -L; echo $CUDA_VISIBLE_DEVICES",
        sources=("CUDA runtime error string",),
        examples=("RuntimeError: CUDA error: invalid device ordinal",),
    ),
    Signature(
        id="cuda.device_busy",
        words=("busy or unavailable",),
        pattern=r"busy or unavailable",
        cause="The GPU is busy or unavailable: exclusive compute mode with another process on it, a MIG state, "
        "or a broken device.",
        fix="Free the GPU or choose another; set the compute mode to Default.",
        runnable=True,
        verify="nvidia-smi -q -d COMPUTE; nvidia-smi --query-compute-apps=pid,used_memory --format=csv",
        asks=(
            Missing(
                "the compute mode, another process on it, or the MIG state (nvidia-smi -q -d COMPUTE)",
                "each of them gives this text",
                "nvidia-smi -q -d COMPUTE; nvidia-smi --query-compute-apps=pid --format=csv",
            ),
        ),
        sources=("CUDA runtime error string",),
        examples=("RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable",),
    ),
)
