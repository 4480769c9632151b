"""What measurements on this machine taught: constants of each GPU, and how near the estimates were."""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from remat.probe.messages import Range

_KEPT = 500
"""comparisons that are remembered, the newest"""
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Constants:
    """Of one GPU under one torch and one driver; each is a measurement."""

    gpu: str
    """as the driver names it"""
    torch: str
    driver: str
    context_bytes: Range
    """what the process held beside the allocator: the least and the most of all measurements"""
    workspace_bytes: int | None
    """of cuBLAS, per handle and stream, inside the allocator"""
    measurements: int = 1


@dataclass(frozen=True, slots=True)
class Comparison:
    """The same steps, estimated and measured."""

    target: str
    variant: str
    on: str
    """the GPU, or `cpu`"""
    torch: str
    estimated_allocated: int
    measured_allocated: int
    estimated_reserved: int | None = None
    measured_reserved: int | None = None


@dataclass(frozen=True, slots=True)
class Calibration:
    """All that is remembered."""

    constants: tuple[Constants, ...] = ()
    comparisons: tuple[Comparison, ...] = ()


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far estimates were from measurements, as shares of what was measured; above zero: too high."""

    comparisons: int
    median: float
    """of the errors without their signs"""
    worst: float


# ---- pure


def with_constants(known: Calibration, seen: Constants) -> Calibration:
    """The same GPU, torch and driver widen what is known of them; others stand beside it."""
    key = (seen.gpu, seen.torch, seen.driver)
    old = next((item for item in known.constants if (item.gpu, item.torch, item.driver) == key), None)
    if old is not None:
        seen = replace(
            seen,
            context_bytes=Range(
                min(old.context_bytes.low, seen.context_bytes.low), max(old.context_bytes.high, seen.context_bytes.high)
            ),
            workspace_bytes=seen.workspace_bytes or old.workspace_bytes,
            measurements=old.measurements + seen.measurements,
        )
    others = tuple(item for item in known.constants if item is not old)
    return replace(known, constants=(*others, seen))


def with_comparison(known: Calibration, seen: Comparison) -> Calibration:
    """A comparison of the same steps takes the place of the older one."""
    key = (seen.target, seen.variant, seen.on, seen.torch)
    others = [c for c in known.comparisons if (c.target, c.variant, c.on, c.torch) != key]
    return replace(known, comparisons=(*others[-_KEPT + 1 :], seen))


def constants_of(known: Calibration, gpu: str, torch: str | None = None) -> Constants | None:
    """Of a GPU by the driver's name: under this torch if that was measured, else under the last that was."""
    fitting = [item for item in known.constants if item.gpu == gpu]
    exact = [item for item in fitting if item.torch == torch]
    best = exact or fitting
    return best[-1] if best else None


def agreement(known: Calibration, on: str) -> Agreement | None:
    """Of allocated memory on one GPU, or on `cpu`; None before anything was measured there."""
    errors = [
        item.estimated_allocated / item.measured_allocated - 1
        for item in known.comparisons
        if item.on == on and item.measured_allocated
    ]
    if not errors:
        return None
    return Agreement(len(errors), statistics.median(map(abs, errors)), max(errors, key=abs))


# ---- where it is kept


def default_path() -> Path:
    """In the user's cache, as the platform has it; REMAT_CACHE_DIR decides before that."""
    own = os.environ.get("REMAT_CACHE_DIR")
    if own:
        return Path(own) / "measurements.json"
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "remat" / "measurements.json"


def load(path: Path) -> Calibration:
    """What the file holds; nothing, where there is none or it is not ours: it is a cache, measuring fills it again."""
    try:
        data = json.loads(path.read_text("utf-8"))
        if data["version"] != _VERSION:
            return Calibration()
        constants = [
            Constants(**{**item, "context_bytes": Range(**item["context_bytes"])}) for item in data["constants"]
        ]
        return Calibration(tuple(constants), tuple(Comparison(**item) for item in data["comparisons"]))
    except (OSError, ValueError, TypeError, KeyError):
        return Calibration()


def save(path: Path, calibration: Calibration) -> bool:
    """Writes the whole file at once; False where the user's cache can't be written: nothing depends on it."""
    new = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new.write_text(json.dumps({"version": _VERSION, **asdict(calibration)}, indent=1), "utf-8")
        new.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            new.unlink()
        return False
    return True
