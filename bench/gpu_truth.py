"""Measures training steps on a GPU and compares them with the probe's estimates.

With PYTHONPATH=server:

    python bench/gpu_truth.py                                   estimate and measure here, in eight minutes at most
    python bench/gpu_truth.py --estimate-only --gpu H200 --estimates FILE                            on any machine
    python bench/gpu_truth.py --estimates FILE                                      compare with those, on a GPU
    python bench/gpu_truth.py --out FILE --resume                     only what FILE, cut off or broken off, lacks
    python bench/gpu_truth.py --device cpu                                          small models, on the CPU

FILE is written after every row. Exit status: 0 when the figures are as wanted (at least 20 rows; allocated: median 1 %;
reserved: 3 %; nothing more than 5 % too low), 1 when not, 2 when there is nothing to measure on.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import time
import traceback
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from gpu_models import GPU, SMALL, rows

from remat.probe.measured.measurable import CannotMeasureError, device_here
from remat.probe.measured.measure import measure_in_turn
from remat.probe.measured.memory_on_cuda import driver
from remat.probe.messages import Limits
from remat.probe.simulated.estimate import estimate

if TYPE_CHECKING:
    from collections.abc import Callable

    from remat.probe.messages import VariantResult

ENOUGH = 20
"""rows that have to be measured"""
LIMIT = 480.0
"""seconds after which no row is still running: of a row that is late only its own figures are lost"""
TOO_LOW = -0.05
WANTED = {"allocated": 0.01, "reserved": 0.03}


@dataclass
class Figures:
    """In bytes; of phases the peak of the last step."""

    allocated: int
    reserved: int | None
    process: int | None
    peak_phase: str
    phases: dict[str, int]
    step_seconds: float | None = None
    step_seconds_range: tuple[float, float] | None = None
    seconds: float = 0.0
    notes: tuple[str, ...] = ()


@dataclass
class Row:
    name: str
    estimated: Figures | None = None
    measured: Figures | None = None
    failure: str | None = None
    left_out: str | None = None
    """why it was not run, though nothing is wrong with it"""
    errors: dict[str, float] = field(default_factory=dict)


def figures_of(result: VariantResult, seconds: float) -> Figures:
    process = result.process_bytes
    known = process is not None and process.low == process.high
    between = result.step_seconds_range
    return Figures(
        result.allocated_bytes,
        result.reserved_bytes,
        int(process.low) if process is not None and known else None,
        result.peak_phase,
        {phase.phase: phase.allocated_bytes for phase in result.phases},
        result.step_seconds,
        None if between is None else (between.low, between.high),
        seconds,
        tuple(note for note in result.assumptions if result.kind == "measured" or "loss" not in note),
    )


def estimated(name: str, args: argparse.Namespace) -> Figures:
    make, variant = chosen(args)[name]
    began = time.perf_counter()
    result = estimate(make(), variant, args.device, args.gpu)
    return figures_of(result, time.perf_counter() - began)


def measured(name: str, args: argparse.Namespace, left: float) -> Figures:
    """The figures alone: what they consist of would take two more steps, and slow ones."""
    make, variant = chosen(args)[name]
    began = time.perf_counter()
    turns = measure_in_turn(make(), variant, args.device, Limits(seconds=left))
    result = next(turns)
    turns.close()
    return figures_of(result, time.perf_counter() - began)


def chosen(args: argparse.Namespace) -> dict:
    listed = rows(SMALL if args.device == "cpu" else GPU)
    parts = [part.strip() for part in args.only.split(",")]
    return {name: row for name, row in listed.items() if any(part in name for part in parts)}


def compare(row: Row, context: int | None) -> None:
    """Errors as shares of what was measured: above zero the estimate is too high. `context`: of a row before."""
    was, came = row.estimated, row.measured
    if was is None or came is None:
        return
    row.errors["allocated"] = was.allocated / came.allocated - 1
    if was.reserved is not None and came.reserved is not None:
        row.errors["reserved"] = was.reserved / came.reserved - 1
        if context is not None and came.process is not None:
            row.errors["process"] = (was.reserved + context) / came.process - 1
    for phase in came.phases.keys() & was.phases.keys() - {"data"}:
        row.errors[phase] = was.phases[phase] / came.phases[phase] - 1


def summary(done: list[Row]) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = {}
    for tier in ("allocated", "reserved", "process", "load", "forward", "backward", "optimizer"):
        errors = {row.name: row.errors[tier] for row in done if tier in row.errors}
        if not errors:
            continue
        worst = max(errors, key=lambda name: abs(errors[name]))
        found[tier] = {
            "rows": len(errors),
            "median": statistics.median(map(abs, errors.values())),
            "worst": errors[worst],
            "worst_row": worst,
            "too_low": sorted(name for name, error in errors.items() if error < TOO_LOW),
        }
    return found


def run(args: argparse.Namespace, save: Callable[[list[Row]], None]) -> list[Row]:
    """Every row that the time allows; what fails is told and left behind. `save` is given all that is known by then."""
    before = json.loads(args.estimates.read_text()) if args.estimates and args.estimates.exists() else {}
    if before and before["torch"] != torch.__version__:
        print(f"the estimates were made with torch {before['torch']}, this is {torch.__version__}")
    known = {name: Figures(**given) for name, given in before.get("estimates", {}).items()}
    have = measured_before(args) if args.resume else {}
    began, done, context = time.monotonic(), [], None
    print(f"{'':<28}{'estimated':>11}{'measured':>11}{'allocated':>11}{'reserved':>10}{'process':>9}   peak")
    for name in chosen(args):
        row = have.get(name, Row(name))
        done.append(row)
        if name not in have:
            row.left_out = not_now(time.monotonic() - began, args)
            if row.left_out is None:
                run_one(row, known.get(name), args, LIMIT - (time.monotonic() - began))
        compare(row, context)
        came = row.measured
        if context is None and came is not None and came.process is not None and came.reserved is not None:
            context = came.process - came.reserved
        show(row)
        save(done)
    return done


def run_one(row: Row, known: Figures | None, args: argparse.Namespace, left: float) -> None:
    try:
        row.estimated = known or estimated(row.name, args)
        row.measured = measured(row.name, args, left)
    except Exception as error:  # noqa: BLE001 -- the other rows still count
        row.failure = f"{type(error).__name__}: {error}"
        if not isinstance(error, CannotMeasureError):
            traceback.print_exc()
    gc.collect()


def not_now(passed: float, args: argparse.Namespace) -> str | None:
    """Why no further row is run: no time, or an error that a process does not get rid of (an illegal access)."""
    if passed > args.seconds:
        return "no time was left"
    if args.device == "cuda":
        try:
            torch.cuda.synchronize()
        except RuntimeError as error:
            return f"the GPU is lost to this process, run again with --resume: {str(error).splitlines()[0]}"
    return None


def measured_before(args: argparse.Namespace) -> dict[str, Row]:
    """The rows of --out that have figures, if they were measured on this GPU with this torch."""
    if args.out is None or not args.out.exists():
        return {}
    kept = json.loads(args.out.read_text())
    if (kept["gpu"], kept["torch"]) != (args.gpu, torch.__version__):
        print(f"{args.out} is of {kept['gpu']} and torch {kept['torch']}: nothing of it is kept")
        return {}
    rows = [Row(**{**row, "estimated": None, "measured": None, "errors": {}}) for row in kept["rows"]]
    for row, given in zip(rows, kept["rows"], strict=True):
        row.estimated, row.measured = (Figures(**given[k]) if given[k] else None for k in ("estimated", "measured"))
    return {row.name: row for row in rows if row.measured is not None}


def show(row: Row) -> None:
    if row.failure is not None or row.estimated is None or row.measured is None:
        print(f"{row.name:<28}{row.failure or row.left_out}", flush=True)
        return
    shares = "".join(
        f"{row.errors[tier]:>+{width}.2%}" if tier in row.errors else f"{'':>{width}}"
        for tier, width in (("allocated", 11), ("reserved", 10), ("process", 9))
    )
    phases = row.estimated.peak_phase, row.measured.peak_phase
    peak = phases[1] if phases[0] == phases[1] else f"{phases[0]}, measured {phases[1]}"
    sizes = "".join(f"{figure.allocated / 2**20:>11,.1f}" for figure in (row.estimated, row.measured))
    print(f"{row.name:<28}{sizes}{shares}   {peak}", flush=True)


def tell(found: dict[str, dict[str, object]], done: list[Row]) -> bool:
    """Prints the summary; returns whether it is as wanted."""
    measured_rows = [row for row in done if row.measured is not None]
    good = all(row.failure is None for row in done) and len(measured_rows) >= min(ENOUGH, len(done))
    print(f"\n{'':<12}{'rows':>5}{'median':>10}{'worst':>10}")
    for tier, figures in found.items():
        shares = f"{figures['median']:>10.3%}{figures['worst']:>+10.3%}"
        print(f"{tier:<12}{figures['rows']:>5}{shares}  {figures['worst_row']}")
        if tier in WANTED:
            good &= figures["median"] <= WANTED[tier] and not figures["too_low"]
            for name in figures["too_low"]:
                print(f"{'':<12}more than 5 % too low: {name}")
    for row in done:
        if row.failure is not None:
            print(f"failed: {row.name}: {row.failure}")
    reasons = {row.left_out for row in done if row.left_out is not None}
    for reason in sorted(reasons):
        print(f"not run: {sum(row.left_out == reason for row in done)} rows: {reason}")
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--gpu", help="name of the GPU that estimates are for; default: the one that is here")
    parser.add_argument("--only", default="", metavar="TEXT,...", help="only rows with one of these in their names")
    parser.add_argument("--estimate-only", action="store_true", help="write --estimates and measure nothing")
    parser.add_argument("--estimates", type=Path, help="estimates made beforehand (JSON)")
    parser.add_argument("--seconds", type=float, default=440.0, help="no row is begun after so many seconds")
    parser.add_argument("--out", type=Path, help="where all figures are written, after every row (JSON)")
    parser.add_argument("--resume", action="store_true", help="keep what --out holds already, and measure the rest")
    args = parser.parse_args()
    if args.estimate_only:
        return estimate_only(args)
    try:
        place = device_here(args.device)
    except CannotMeasureError as error:
        print(f"{error}; {error.how}", file=sys.stderr)
        return 2
    is_cuda = place.type == "cuda"
    args.gpu = args.gpu or (torch.cuda.get_device_name(place) if is_cuda else None)
    about = {"gpu": args.gpu, "torch": torch.__version__, "driver": driver() if is_cuda else None}

    def save(rows: list[Row]) -> None:
        if args.out is None:
            return
        new = args.out.with_name(f"{args.out.name}.new")
        new.write_text(json.dumps({**about, "summary": summary(rows), "rows": [asdict(row) for row in rows]}, indent=1))
        new.replace(args.out)

    began = time.monotonic()
    done = run(args, save)
    good = tell(summary(done), done)
    print(f"{args.gpu or 'CPU'}, torch {torch.__version__}, {time.monotonic() - began:.0f} s")
    return 0 if good else 1


def estimate_only(args: argparse.Namespace) -> int:
    if args.estimates is None:
        print("--estimate-only needs --estimates FILE, where they are written", file=sys.stderr)
        return 2
    made = {}
    for name in chosen(args):
        made[name] = estimated(name, args)
        print(f"{name:<28}{made[name].allocated / 2**20:>11,.1f} MiB, {made[name].seconds:.1f} s", flush=True)
        about = {"gpu": args.gpu, "device": args.device, "torch": torch.__version__}
        args.estimates.write_text(
            json.dumps({**about, "estimates": {name: asdict(figures) for name, figures in made.items()}}, indent=1)
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
