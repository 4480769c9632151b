"""Memory ran out: on the device (capacity, fragmentation, another process), on the host, in /dev/shm."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from remat.diagnose.report import Missing
from remat.diagnose.signature import Signature

if TYPE_CHECKING:
    from collections.abc import Callable

    from remat.diagnose.signature import Facts, Seen

_UNITS = {"B": 1, "bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_OTHERS = re.compile(r"Process \d+ has (?P<size>[\d.]+ \w+) memory in use")
_OWN = re.compile(r"this process has (?P<size>[\d.]+ \w+) memory in use")
_SIZE = r"[\d.]+ (?:[KMGT]iB|bytes|B)"
_OOM = (
    rf"out of memory\. Tried to allocate (?P<asked>{_SIZE})"
    rf"(?:[\s\S]{{0,60}}?GPU (?P<gpu>\d+)(?: has a total capacity of|;) (?P<total>{_SIZE})(?: total capacity; "
    rf"(?P<old_allocated>{_SIZE}) "
    rf"already allocated; (?P<old_free>{_SIZE}) free; (?P<old_reserved>{_SIZE}) reserved)?(?: of which "
    rf"(?P<free>{_SIZE}) is free)?)?"
    rf"(?:[\s\S]{{0,800}}?Of the allocated memory (?P<allocated>{_SIZE}) is allocated by PyTorch, and "
    rf"(?P<unused>{_SIZE}) is reserved)?"
)
_TYPES = ("CUDA out of memory", "HIP out of memory", "XPU out of memory", "out of memory. Tried to allocate")
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
    facts = dict(seen.facts)
    facts.setdefault("free", facts.get("old_free", "an unknown amount"))
    if "old_reserved" in facts:
        facts["allocated"] = facts["old_allocated"]
        spare = max(size(facts["old_reserved"]) - size(facts["old_allocated"]), 0.0)
        facts["unused"] = f"{spare / _UNITS['GiB']:.2f} GiB"
    others = sum(size(found["size"]) for found in _OTHERS.finditer(seen.text))
    facts["others"] = f"{others / _UNITS['GiB']:.2f} GiB"
    facts["own"] = found["size"] if (found := _OWN.search(seen.text)) else facts.get("allocated", "")
    numbers = f"asked for {facts['asked']}"
    if "total" in facts:
        numbers += f", {facts['free']} of {facts['total']} free"
    if "allocated" in facts:
        numbers += f"; {facts['allocated']} allocated by PyTorch, {facts['unused']} reserved but unallocated"
    facts["numbers"] = numbers
    return facts


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
        pattern=_OOM,
        read=_only(variant),
        cause=cause,
        fix=fix,
        verify=verify,
        sources=(_TEXT,),
        examples=(example,),
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
        "python -c 'import torch; print(torch.cuda.memory_summary())' after one step: peak allocated stays "
        "below the total",
        _LOG.format("2.50 GiB", "1.02 GiB", "", "78.11 GiB", "75.90 GiB", "1.30 GiB"),
    ),
    _oom(
        "fragmentation",
        "The GPU is out of memory by fragmentation: {numbers}. The request would fit into what PyTorch holds "
        "but cannot use.",
        "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; bucket sequence lengths so that sizes repeat.",
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
            "CUDA out of memory",
            "Cuda failure 2 'out of memory'",
        ),
        pattern=r"(?P<status>CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_ALLOC_FAILED|Cuda failure (?:2 )?'out of "
        r"memory')",
        cause="A CUDA library could not allocate its own workspace ({status}): the GPU was full outside "
        "PyTorch's allocator.",
        fix="Leave headroom: a smaller batch, torch.cuda.set_per_process_memory_fraction, or create the handle "
        "before memory is "
        "full.",
        verify="python -c 'import torch; print(torch.cuda.mem_get_info())' just before the call",
        sources=("CUDA library status names",),
        examples=("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",),
    ),
    Signature(
        id="mem.host_cpu_alloc",
        words=("DefaultCPUAllocator",),
        pattern=r"DefaultCPUAllocator: (?:can't|not enough memory|cannot)[^:]*(?:: you tried to allocate "
        r"(?P<bytes>\d+) bytes)?",
        cause="The host (CPU, not the GPU) could not allocate {bytes} bytes.",
        fix="Ask for less host memory: a smaller tensor or allocation, torch.load(..., mmap=True), map_location "
        "per shard; or raise "
        "the memory limit of the job.",
        runnable=True,
        verify="free -g; ulimit -v",
        sources=("c10/core/impl/alloc_cpu.cpp:127, torch 2.13.0",),
        examples=(
            (
                "RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate "
                "memory: you tried to "
                "allocate 274877906944 bytes. Error code 12 (Cannot allocate memory)"
            ),
        ),
    ),
    Signature(
        id="mem.shm_bus_error",
        words=("Unexpected bus error encountered in worker", "killed by signal: Bus error"),
        pattern=r"Unexpected bus error encountered in worker|DataLoader worker \(pid (?P<pid>\d+)\) is killed "
        r"by signal: Bus error",
        cause="A DataLoader worker died of a bus error: shared memory (/dev/shm) is full.",
        fix="Raise /dev/shm (docker run --shm-size=8g or --ipc=host; an emptyDir with medium: Memory), or lower "
        "num_workers.",
        runnable=True,
        verify="df -h /dev/shm",
        sources=("string in libtorch_python.so, torch 2.13.0",),
        bare=True,
        examples=(
            (
                "RuntimeError: DataLoader worker (pid 4107) is killed by signal: Bus error. It is possible that "
                "dataloader's workers "
                "are out of shared memory."
            ),
        ),
    ),
    Signature(
        id="mem.shm_nccl",
        words=("Error while creating shared memory segment", "posix_fallocate failed", "shm_open"),
        pattern=r"Error while creating shared memory segment (?P<path>\S+)(?: \(size (?P<bytes>\d+)\))?"
        r"|posix_fallocate failed ?: No space left",
        cause="NCCL could not create its shared-memory segment {path}: /dev/shm is too small ({bytes} bytes "
        "were asked for).",
        fix="Start the container with --shm-size=1g or more (or --ipc=host).",
        runnable=True,
        verify="df -h /dev/shm",
        sources=("NCCL src/misc/shmutils.cc",),
        extra={"path": "in /dev/shm", "bytes": "some"},
        bare=True,
        examples=(
            (
                "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1691, unhandled system "
                "error, NCCL version "
                "2.21.5\nncclSystemError: System call failed.\nLast error:\nError while creating shared memory segment "
                "/dev/shm/nccl-pZafXL (size 7340384)"
            ),
        ),
    ),
    Signature(
        id="mem.host_oom_kill",
        words=(),
        pattern="",
        cause="The kernel's out-of-memory killer ended the process: {record}.",
        fix="Raise the cgroup or job memory limit, or use less host RAM: fewer workers, memory-mapped data, "
        "sharded checkpoint "
        "saving.{rss}",
        runnable=True,
        verify="dmesg -T | grep -i 'out of memory'; cat /sys/fs/cgroup/memory.events",
        sources=("Linux mm/oom_kill.c", "slurmstepd"),
        examples=(
            (
                "[Fri Mar 21 03:42:44 2025] Memory cgroup out of memory: Killed process 20118 (python) "
                "total-vm:214748kB, "
                "anon-rss:62914560kB, file-rss:0kB"
            ),
        ),
    ),
    Signature(
        id="proc.sigkill_unknown",
        words=(),
        pattern="",
        cause="{who} was ended by SIGKILL, and nothing in the log says who sent it: host memory (the OOM "
        "killer), the scheduler or "
        "a person.",
        fix="First find the sender. If it is host RAM: sharded or asynchronous checkpoint saving, fewer "
        "workers, more RAM.",
        runnable=True,
        verify="dmesg -T | grep -i -E 'oom|killed process'; cat /sys/fs/cgroup/memory.events; sacct -j "
        "$SLURM_JOB_ID -o State,ExitCode,MaxRSS",
        asks=(
            Missing(
                "who sent SIGKILL: dmesg / memory.events of that host, the scheduler log; RSS (host memory) "
                "during the save or step",
                "the out-of-memory killer, the scheduler and a person leave the same exit code -9",
                "dmesg -T | grep -i -E 'oom|killed process'; cat /sys/fs/cgroup/memory.events",
            ),
        ),
        sources=("torch/distributed/elastic/multiprocessing/errors/__init__.py:142, torch 2.13.0",),
        examples=(
            (
                '-- Process 1 terminated with signal\nTraceback (most recent call last):\n  File "fit.py", line 8, '
                "in <module>\n"
                "    mp.spawn(worker, nprocs=3)\n"
                "torch.multiprocessing.spawn.ProcessExitedException: process 2 terminated with signal SIGKILL"
            ),
        ),
    ),
)
