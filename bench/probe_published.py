"""The probe against published measurements: `python -m bench.probe_published FILE.jsonl [WORD]`.

Each row becomes one call of the probe; what can't be expressed is listed with the reason. Run it from the repository
with torch, transformers and `server` on the path.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import transformers
from bench.published.rows import MIB, Call, NotComparableError, call_of

from remat.probe.simulated.allocator import CachingAllocator
from remat.probe.simulated.estimate import estimated, simulate

if TYPE_CHECKING:
    from remat.probe.simulated.log import Log

warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()


def main() -> None:
    rows = [json.loads(line) for line in Path(sys.argv[1]).read_text().splitlines()]
    words = sys.argv[2:]
    refused, errors = [], defaultdict(list)
    for row in rows:
        if words and not all(word in f"{row['sub']} {row['name']} {row['settings']}" for word in words):
            continue
        try:
            compare(row, call_of(row), errors)
        except NotComparableError as reason:
            refused.append((row["name"], str(reason)))
        except Exception as error:  # an adapter may ask for real values
            if not row["sub"].startswith("peft-"):
                raise
            said = (str(error).strip().splitlines() or [""])[0]
            refused.append((row["name"], f"does not run on fake tensors: {type(error).__name__}: {said[:160]}"))
    summary(errors)
    print(f"\nnot comparable: {len(refused)}")
    for name, reason in refused:
        print(f"  {name}: {reason}")


def compare(row: dict, call: Call, errors: dict) -> None:
    start = time.perf_counter()
    with call.kernels:
        traced = simulate(call.built, call.variant, "cuda", call.gpu)
        call.loading(traced.log)
        result = estimated(call.built, call.variant, traced, "cuda", call.gpu)
    seconds = time.perf_counter() - start
    reserved = (after_emptying(traced.log) if call.emptied else result.reserved_bytes or 0) + call.beside
    told = {"allocated": result.allocated_bytes + call.beside, "reserved": reserved, "process": reserved + call.context}
    off = {}
    for tier, published in call.published.items():
        off[tier] = told[tier] / published - 1
        errors[f"{row['sub']}, {tier}"].append(off[tier])
    said = "  ".join(f"{tier} {told[tier] / MIB:.1f} ({value:+.2%})" for tier, value in off.items())
    print(
        f"{row['sub']:18} {row['settings']['model'][:30]:30} b{row['settings']['batch']} s{row['settings']['seq']}",
        end=" ",
    )
    print(f"{row['settings'].get('attention', '')[:5]} {said}  {seconds:.1f} s")
    if call.phases:
        phases = {p.phase: p.allocated_bytes for p in result.phases}
        known = {name: value for name, value in call.phases.items() if name in phases}
        wanted = max(known, key=known.__getitem__)
        right = wanted == result.peak_phase
        errors[f"{row['sub']}, phase of the peak wrong"].append(0.0 if right else 1.0)
        print(
            "     ",
            "  ".join(f"{n} {(phases[n] - v) / MIB:+.2f} MiB" for n, v in known.items()),
            "" if right else "PHASE WRONG",
        )
    for assumption in result.assumptions:
        print("      assumed:", assumption)


def after_emptying(log: Log) -> int:
    """Bytes reserved at most in the last step, where the cache was emptied before it."""
    last = log.marks[-1].step
    begins = next(mark.event for mark in log.marks if mark.step == last)
    allocator = CachingAllocator()
    for index, event in enumerate(log.events):
        if index == begins:
            allocator.empty_cache()
            allocator.reset_peaks()
        if event > 0:
            allocator.allocate(event, log.allocations[event - 1].bytes, log.streams.get(event - 1, 0))
        else:
            allocator.free(-event)
    return allocator.peak_reserved


def summary(errors: dict) -> None:
    print("\nfigure | rows | median | worst")
    for name, values in errors.items():
        worst = max(values, key=abs)
        print(f"{name} | {len(values)} | {median(map(abs, values)):.3%} | {worst:+.3%}")


if __name__ == "__main__":
    main()
