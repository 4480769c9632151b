"""What an estimate costs: `python bench/probe_speed.py PYTHON`, with a Python that has torch and transformers.

A worker is started for each model, as the editor does, and asked twice: seconds with the imports, and once it is warm.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "server"))

from remat.probe import advise, run
from remat.probe.gpus import card
from remat.probe.messages import Request, Variant, VariantResult

HERE = Path(__file__).parent
MODELS = ("llama_1b", "llama_8b", "llama_70b")
WAYS = ("none", "all")
LENGTHS = (2048, 2056, 2064)  # what was asked before is answered from memory
VARIANT = Variant("v", dtype="bf16", batch=1, seq=2048)


class Asked:
    """A warm worker, and the seconds and the memory that its answers took."""

    def __init__(self, python: str, model: str) -> None:
        self.request = Request(f"probed_models.py:{model}", (VARIANT,), str(HERE), gpu="H100-80GB")
        self.worker = run.start(python, HERE)

    def __call__(self, *variants: Variant) -> list[VariantResult | None]:
        events = run.ask(self.worker, replace(self.request, variants=variants))
        found = {event.name: event for event in events if isinstance(event, VariantResult)}
        return [found.get(variant.name) for variant in variants]

    def seconds(self, *variants: Variant) -> float:
        began = time.monotonic()
        assert None not in self(*variants), variants
        return time.monotonic() - began

    def mebibytes(self) -> float:
        """The most that the worker ever held."""
        status = Path(f"/proc/{self.worker.process.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 1024


def one_model(python: str, model: str) -> None:
    asked = Asked(python, model)
    for way in WAYS:
        variants = [replace(VARIANT, name=way, checkpointing=way, seq=length) for length in LENGTHS]
        first, *again = [asked.seconds(variant) for variant in variants]
        cold = f"{first:.1f}" if way == WAYS[0] else "-"
        print(f"| {model} | {way} | {cold} | {min(again):.1f} | {asked.mebibytes():.0f} |", flush=True)
    run.end(asked.worker)


def sharded(python: str, model: str, ranks: int) -> None:
    asked = Asked(python, model)
    variant = replace(VARIANT, checkpointing="all", world_size=ranks, sharding="fsdp2")
    cold, warm = (asked.seconds(replace(variant, seq=length)) for length in LENGTHS[:2])
    print(f"| {model}, FSDP2 on {ranks} ranks | all | {cold:.1f} | {warm:.1f} | {asked.mebibytes():.0f} |", flush=True)
    run.end(asked.worker)


def many_cells(python: str) -> None:
    asked = Asked(python, "llama_1b")
    choices = product(("none", "all"), ("adamw", "adamw-fused", "adamw-8bit"), (1, 8), (None, "bf16"))
    cells = [
        replace(VARIANT, name=f"{number}", checkpointing=way, optimizer=optimizer, batch=batch, dtype=dtype)
        for number, (way, optimizer, batch, dtype) in enumerate(choices)
    ]
    asked.seconds(VARIANT)
    print(f"\nwhat-if table of {len(cells)} cells, llama_1b, warm: {asked.seconds(*cells):.1f} s")
    began = time.monotonic()
    found = advise.largest_batch(cache(asked.__call__), replace(VARIANT, checkpointing="all"), card("H100-80GB"))
    print(f"largest batch on an H100, llama_1b: {found.size}, {time.monotonic() - began:.1f} s")
    run.end(asked.worker)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python")
    python = parser.parse_args().python
    print("| model | checkpointing | s, with imports | s, warm | MiB |\n|---|---|---|---|---|")
    for model in MODELS:
        one_model(python, model)
    sharded(python, "llama_8b", 128)
    sharded(python, "llama_70b", 256)
    many_cells(python)


if __name__ == "__main__":
    main()
