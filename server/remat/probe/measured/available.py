"""How much memory this machine can still give a process; None where that can't be found out."""

from __future__ import annotations

from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")
_FILES = (("memory.max", "memory.current"), ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"))
"""limit and use of a container, in version 2 and 1 of control groups"""


def available_memory(limit: int | None = None) -> int | None:
    """Bytes that this process can still take: of the machine, its container, and its own `limit`."""
    found = [_machine(), *(_left(_CGROUP / most, _CGROUP / used) for most, used in _FILES)]
    if limit is not None:
        found.append(max(0, limit - (_own() or 0)))
    return min((size for size in found if size is not None), default=None)


def _machine() -> int | None:
    return _field(Path("/proc/meminfo"), "MemAvailable:")


def _own() -> int | None:
    return _field(Path("/proc/self/status"), "VmData:")


def _field(path: Path, name: str) -> int | None:
    try:
        lines = path.read_text("utf-8").splitlines()
    except OSError:
        return None
    values = (line.split()[1] for line in lines if line.startswith(name))
    return next((int(value) * 1024 for value in values if value.isdecimal()), None)


def _left(most: Path, used: Path) -> int | None:
    """What is left of a control group's limit; its use counts files that are cached, so this is the least there is."""
    try:
        limit, use = most.read_text("utf-8").strip(), used.read_text("utf-8").strip()
    except OSError:
        return None
    if not (limit.isdecimal() and use.isdecimal()):  # "max": no limit
        return None
    return max(0, int(limit) - int(use))
