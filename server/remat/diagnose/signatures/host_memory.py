"""Memory ran out on the host: allocations, the out-of-memory killer, /dev/shm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from remat.diagnose.report import Missing
from remat.diagnose.signature import Signature

if TYPE_CHECKING:
    from remat.diagnose.signature import Facts, Seen


def _amount(seen: Seen) -> Facts | None:
    facts = dict(seen.facts)
    number = facts.get("bytes", "")
    if number.isdigit():
        facts["bytes"] = f"{number} bytes ({int(number) / (1 << 30):.1f} GiB)"
    else:
        facts["bytes"] = facts.get("amount", "the memory it asked for")
    return facts


def _by_ray(seen: Seen) -> Facts | None:
    """Ray's memory monitor kills before the kernel does: no kernel log tells of it."""
    facts = {key: value for key, value in seen.facts.items() if key not in {"name", "pid", "node", "limit"}}
    facts |= {"killer": "Ray's memory monitor", "rss": "", "check": "ray status; free -g; ray logs raylet.out"}
    found = seen.facts
    if "node" not in found:
        return {**facts, "record": "the node ran low on host memory"}
    used = f", which used {found['used']}" if "used" in found else ""
    limit = f", over its threshold of {found['limit']}" if "limit" in found else ""
    record = f"{found['name']} (pid {found['pid']}{used}), when the node's memory stood at {found['node']}{limit}"
    return {**facts, "record": record}


SIGNATURES = (
    Signature(
        id="mem.host_cpu_alloc",
        words=("DefaultCPUAllocator", "Cannot allocate memory", "MemoryError"),
        pattern=r"DefaultCPUAllocator: (?:can't|not enough memory|cannot)[^:]*(?:: you tried to allocate "
        r"(?P<bytes>\d{1,18}) bytes)?|(?:Errno 12\]|from file <[^>]{1,200}>:) Cannot allocate memory"
        r"|MemoryError: Unable to allocate (?P<amount>[\d.]+ \w+) for an array|^MemoryError\b",
        read=_amount,
        cause="The host (CPU, not the GPU) could not allocate {bytes}.",
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
        pattern=r"Unexpected bus error encountered in worker|DataLoader worker \(pid (?P<pid>\d{1,18})\) is killed "
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
        words=("shared memory segment", "posix_fallocate failed"),
        pattern=r"Error while (?:creating|attaching to) shared memory segment (?P<path>\S+)"
        r"(?: \(size (?P<bytes>\d{1,18})\))?"
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
        words=("killed due to the node running low on memory",),
        pattern=r"killed due to the node running low on memory(?:[\s\S]{0,600}?name=(?P<name>[^,)]{1,200}), "
        r"pid=(?P<pid>\d+)(?:, memory used=(?P<used>[\d.]+ ?\wB))?[\s\S]{0,60}?was running was "
        r"(?P<node>[\d.]+ ?\wB / [\d.]+ ?\wB)(?:[\s\S]{0,80}?threshold of (?P<limit>\d(?:\.\d+)?))?)?",
        read=_by_ray,
        cause="{killer} ended the process: {record}.",
        fix="Raise the cgroup or job memory limit, or use less host RAM: fewer workers, memory-mapped data, "
        "sharded checkpoint "
        "saving.{rss}",
        runnable=True,
        verify="{check}",
        sources=("Linux mm/oom_kill.c", "slurmstepd", "ray"),
        extra={
            "killer": "The kernel's out-of-memory killer",
            "check": "dmesg -T | grep -i 'out of memory'; cat /sys/fs/cgroup/memory.events",
        },
        examples=(
            (
                "[Fri Mar 21 03:42:44 2025] Memory cgroup out of memory: Killed process 20118 (python) "
                "total-vm:214748kB, "
                "anon-rss:62914560kB, file-rss:0kB"
            ),
            (
                "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\nMemory on "
                "the node (IP: 10.0.0.4, ID: 3c1e) where the task (task ID: 77a0, name=Rollout.step, pid=2210, memory "
                "used=9.75GB) was running was 121.60GB / 127.90GB (0.950743), which exceeds the memory usage threshold "
                "of 0.95."
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
