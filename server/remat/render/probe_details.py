"""What a probe found of each variant, what it assumed, and what failed, in words."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from remat.render.sizes import short_path, size
from remat.render.terminal import Piece, visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from remat.probe.messages import Failure, Kept, Range, Recomputed, VariantResult

_LINES, _MODULES, _ASSUMPTIONS = 5, 4, 12


def details(result: VariantResult) -> Iterator[Piece]:
    """Tell of one variant what it holds, recomputes and keeps."""
    yield Piece(visible(result.name), "bold")
    yield Piece(f": {size(result.saved_activation_bytes)} of activations saved for backward\n")
    held = sorted(result.by_category.items(), key=lambda item: -item[1])
    yield Piece("  at the peak  " + ", ".join(f"{name} {size(value)}" for name, value in held if value) + "\n")
    yield Piece("  phases       " + ", ".join(f"{p.phase} {size(p.allocated_bytes)}" for p in result.phases) + "\n")
    if result.step_seconds is not None:
        yield Piece(f"  step         {result.step_seconds:.3f} s{_spread(result.step_seconds_range)}\n")
    yield from _ranks(result)
    yield from _checkpointing(result)
    for place in result.by_line[:_LINES]:
        name = visible(short_path(place.path))
        yield Piece(f"  {size(place.bytes):>11}  ")
        yield Piece(f"saved at {name}:{place.line}\n")


def _ranks(result: VariantResult) -> Iterator[Piece]:
    """How far the ranks are apart."""
    if not result.ranks:
        return
    least, most = (pick(result.ranks, key=lambda one: one.allocated_bytes) for pick in (min, max))
    low, high = (f"{size(one.allocated_bytes)} (rank {one.rank})" for one in (least, most))
    told = [f"allocated {low} to {high}"]
    reserved = [one.reserved_bytes for one in result.ranks if one.reserved_bytes is not None]
    if reserved:
        told.append(f"reserved {size(min(reserved))} to {size(max(reserved))}")
    seconds = [one.step_seconds for one in result.ranks]
    told.append(f"step {min(seconds):.3f} to {max(seconds):.3f} s")
    yield Piece(f"  {len(result.ranks)} ranks".ljust(15) + f"{', '.join(told)}\n")


def _spread(between: Range | None) -> str:
    return "" if between is None else f" ({between.low:.3f} to {between.high:.3f})"


def _checkpointing(result: VariantResult) -> Iterator[Piece]:
    if result.checkpointed:
        yield Piece(f"  recomputed   {_modules(result.checkpointed)}")
        ratio = result.recompute_flops_ratio
        low, high = (f"{end:.2f}" for end in (ratio.low, ratio.high))
        yield Piece(f"; {low if low == high else f'{low} to {high}'} times the operations\n")
    if result.inactive_because:
        yield Piece(f"  recomputed   nothing: {visible(result.inactive_because)}\n", "yellow")
    kept = [item for item in result.not_checkpointed if item.saved_bytes]
    if kept and result.checkpointed:
        yield Piece(f"  kept         {_modules(kept)}\n")


def _modules(found: Sequence[Recomputed | Kept]) -> str:
    names = []
    for item in found[:_MODULES]:
        saved = getattr(item, "saved_bytes", 0)
        what = f"{item.count} x {item.class_name} ({item.module or 'the model itself'})"
        names.append(visible(what) + (f" {size(saved)}" if saved else ""))
    return ", ".join(names) + (f" and {len(found) - _MODULES} more" if len(found) > _MODULES else "")


def assumptions(results: Sequence[VariantResult]) -> Iterator[Piece]:
    """List what was assumed once, and what only one variant assumed with its name."""
    common = [a for a in results[0].assumptions if all(a in result.assumptions for result in results)]
    own = [f"{r.name}: {a}" for r in results for a in r.assumptions if a not in common]
    said = [*common, *own]
    if said:
        yield Piece("\nassumed\n", "dim")
        for assumption in said[:_ASSUMPTIONS]:
            yield Piece(f"  {visible(assumption)}\n", "dim")
        if len(said) > _ASSUMPTIONS:
            yield Piece(f"  and {len(said) - _ASSUMPTIONS} more (--output-format json lists them)\n", "dim")
    if not all(result.verified for result in results):
        yield Piece("\nNot verified: the figures were checked with another version of torch than this one.\n", "yellow")


def failures(of: Sequence[Failure]) -> Iterator[Piece]:
    """Tell what failed; what is the same of several variants once."""
    alike: dict[Failure, list[str]] = {}
    for failure in of:
        alike.setdefault(replace(failure, variant=None, details=""), []).append(failure.variant or "")
    for failure, variants in alike.items():
        yield from _failed(failure, ", ".join(filter(None, variants)))


def _failed(failure: Failure, variants: str) -> Iterator[Piece]:
    yield Piece("failed", "bold red")
    of = f" of {visible(variants)}" if variants else ""
    yield Piece(f" ({failure.stage}{of}): {visible(failure.message)}\n")
    if failure.location is not None and f":{failure.location.line}" not in failure.message:
        yield Piece(f"  at {visible(short_path(failure.location.path))}:{failure.location.line}\n")
    if failure.missing is not None:
        if failure.missing.fact != failure.message:
            yield Piece(f"  not known: {visible(failure.missing.fact)}\n")
        yield Piece(f"  {visible(failure.missing.how)}\n", "bold")
