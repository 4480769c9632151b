"""What a probe found, as a table with bars and as JSON."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from remat.probe.gpus import CARDS, UNKNOWN, Verdict, process_bytes, verdict
from remat.probe.messages import AGREES_WITHIN
from remat.render.terminal import Piece, visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from remat.probe.gpus import Card
    from remat.probe.messages import Environment, Failure, Kept, Range, Recomputed, VariantResult

_MOST_DETAILED = 4  # variants of which each is told in detail; of more, the table alone
_BAR = 40  # cells of the longest bar
_LINES, _MODULES, _ASSUMPTIONS = 5, 4, 12
_LETTERS = {
    "parameters": ("p", "blue"),
    "buffers": ("b", "blue"),
    "gradients": ("g", "cyan"),
    "optimizer": ("o", "magenta"),
    "activations": ("a", "green"),
    "recomputed": ("r", "yellow"),
    "temporaries": ("t", "red"),
    "communication": ("c", "cyan"),
    "workspaces": ("w", "white"),
    "inputs": ("i", "white"),
    "outputs": ("u", "white"),
}


@dataclass(frozen=True, slots=True)
class Probed:
    """One run of `remat probe`. `on`: the card or size it is judged by; `card`: the one whose context counts."""

    target: str
    device: str
    environment: Environment | None
    seconds: float
    variants: tuple[VariantResult, ...]
    failures: tuple[Failure, ...]
    on: Card | None = None
    card: Card | None = None


def as_json(probed: Probed, advice: dict[str, object] | None = None) -> str:
    answer: dict[str, object] = {
        "target": probed.target,
        "environment": asdict(probed.environment) if probed.environment else None,
        "seconds": probed.seconds,
        "variants": [_variant(result, probed) for result in probed.variants],
        "failures": [_failure(failure) for failure in probed.failures],
    }
    if probed.on is not None:
        answer["budget"] = {"name": probed.on.name, "usable_bytes": probed.on.usable}
    if advice is not None:
        answer["advice"] = advice
    return json.dumps(answer, indent=2, ensure_ascii=False) + "\n"


def _variant(result: VariantResult, probed: Probed) -> dict[str, object]:
    needed = _process(result, probed)
    told: dict[str, object] = asdict(result)
    del told["timeline"]
    told |= {
        "process_bytes": None if needed is None else _number(needed),
        "recompute_flops_ratio": _number(result.recompute_flops_ratio),
    }
    if result.step_seconds_range is None:
        del told["step_seconds_range"]
    if probed.on is not None:
        told["verdict"] = verdict(result, probed.on).value
    return told


def _number(given: Range) -> object:
    """A number where it is known, else the two ends of the range."""
    low, high = (int(end) if float(end).is_integer() and end >= 2**10 else end for end in (given.low, given.high))
    return low if low == high else [low, high]


def _failure(failure: Failure) -> dict[str, object]:
    return {name: value for name, value in asdict(failure).items() if name != "details"}


def _process(result: VariantResult, probed: Probed) -> Range | None:
    if probed.device != "cuda" or result.reserved_bytes is None:
        return result.process_bytes
    return process_bytes(result, probed.card or UNKNOWN)


def as_text(probed: Probed) -> Iterator[Piece]:
    """A table with a bar for each variant, then what each of them holds, then what was assumed."""
    if probed.variants:
        yield from _heading(probed)
        probed = _told_apart(probed)
        yield from _table(probed)
        yield from _side_by_side(probed.variants)
        for result in probed.variants if len(probed.variants) <= _MOST_DETAILED else ():
            yield Piece("\n")
            yield from _details(result)
        yield from _verdicts(probed)
        yield from _assumptions(probed.variants)
    for failure in probed.failures:
        yield from _failed(failure)


def _heading(probed: Probed) -> Iterator[Piece]:
    versions = probed.environment.versions if probed.environment else {}
    kinds = " and ".join(dict.fromkeys(result.kind for result in probed.variants))
    yield Piece(visible(probed.target), "bold")
    yield Piece(f": one training step, {kinds} for {probed.device}")
    ranks = {result.world_size or 0 for result in probed.variants}
    yield Piece(f", each of {max(ranks)} ranks" if len(ranks) == 1 and max(ranks) > 1 else "")
    yield Piece(f", {sizes}" if (sizes := _sizes(probed.variants)) else "")
    yield Piece(f", torch {versions['torch']}" if "torch" in versions else "")
    yield Piece(f", {probed.seconds:.1f} s\n\n")


def _sizes(results: Sequence[VariantResult]) -> str:
    """The batch and sequence that were used, where all have the same."""
    sizes = {(result.batch, result.seq) for result in results}
    if len(sizes) != 1:
        return ""
    ((batch, seq),) = sizes
    return " ".join(filter(None, (f"batch {batch}" if batch else "", f"sequence {seq}" if seq else "")))


def _told_apart(probed: Probed) -> Probed:
    """Where a variant is estimated and measured, its name says which."""
    if len({result.kind for result in probed.variants}) < 2:
        return probed
    named = (replace(result, name=f"{result.name}, {result.kind}") for result in probed.variants)
    return replace(probed, variants=tuple(named))


def _side_by_side(results: Sequence[VariantResult]) -> Iterator[Piece]:
    """How far each estimate is from the measurement that follows it."""
    for was, came in pairwise(results):
        if (was.kind, came.kind) != ("estimated", "measured"):
            continue
        off = {"allocated": was.allocated_bytes / max(came.allocated_bytes, 1) - 1}
        if was.reserved_bytes is not None and came.reserved_bytes:
            off["reserved"] = was.reserved_bytes / came.reserved_bytes - 1
        name = came.name.removesuffix(", measured")
        told = ", ".join(f"{what} {share:+.2%}" for what, share in off.items())
        yield Piece(f"{visible(name)}: the estimate differs from the measurement by {told}\n")
        if max(map(abs, off.values())) > AGREES_WITHIN:
            allowed = f"more than the {AGREES_WITHIN:.0%} of the self-check"
            yield Piece(
                f"  {allowed}: trust the measurement, and what else is estimated for this model less\n", "yellow"
            )


def _table(probed: Probed) -> Iterator[Piece]:
    results = probed.variants
    most = max(result.allocated_bytes for result in results)
    width = max(len("variant"), *(len(result.name) for result in results))
    cuda = any(result.reserved_bytes is not None for result in results)
    figures = [_figures(result, probed, cuda=cuda) for result in results]
    heads = ("allocated", "reserved", "process")[: len(figures[0])]
    widths = [max(map(len, column)) for column in zip(heads, *figures, strict=True)]
    columns = "".join(f"  {head:>{wide}}" for head, wide in zip(heads, widths, strict=True))
    yield Piece(f"{'variant':<{width}}  {'at the peak':<{_BAR}}{columns}  peak in\n", "dim")
    used: dict[str, None] = {}
    for result, (allocated, *others) in zip(results, figures, strict=True):
        yield Piece(f"{visible(result.name):<{width}}  ")
        yield from _bar(result, most, used)
        yield Piece(f"  {allocated:>{widths[0]}}", "bold")
        yield Piece("".join(f"  {figure:>{wide}}" for figure, wide in zip(others, widths[1:], strict=True)))
        yield Piece(f"  {result.peak_phase}\n")
    legend = "  ".join(f"{_letter(name)[0]} {name}" for name in used)
    yield Piece(f"{'':<{width}}  {legend}\n", "dim")


def _figures(result: VariantResult, probed: Probed, *, cuda: bool) -> tuple[str, ...]:
    if not cuda:
        return (size(result.allocated_bytes),)
    reserved = "" if result.reserved_bytes is None else size(result.reserved_bytes)
    return size(result.allocated_bytes), reserved, _between(_process(result, probed))


def _bar(result: VariantResult, most: int, used: dict[str, None]) -> Iterator[Piece]:
    """Each category's share of the peak, in letters, so that it can be read without colour."""
    cells, drawn, total = _BAR * result.allocated_bytes / max(most, 1), 0, 0
    whole = max(1, sum(result.by_category.values()))
    order = [*_LETTERS, *(name for name in result.by_category if name not in _LETTERS)]
    for name in sorted(filter(result.by_category.get, result.by_category), key=order.index):
        total += result.by_category[name]
        length = round(cells * total / whole) - drawn
        if length > 0:
            letter, colour = _letter(name)
            used[name] = None
            drawn += length
            yield Piece(letter * length, colour)
    yield Piece(" " * (_BAR - drawn))


def _letter(name: str) -> tuple[str, str]:
    return _LETTERS.get(name, (name[:1].upper(), "white"))


def _details(result: VariantResult) -> Iterator[Piece]:
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
        name = visible(_short(place.path))
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


def _verdicts(probed: Probed) -> Iterator[Piece]:
    if probed.device != "cuda":
        return
    yield Piece("\n")
    judged: dict[tuple[str, str, str], list[str]] = {}
    for result in probed.variants:
        judged.setdefault(_judged(result, probed.on), []).append(result.name)
    for (says, colour, of), names in judged.items():
        alike = len(judged) == 1 and len(names) > _MOST_DETAILED
        yield Piece("every variant: " if alike else f"{visible('; '.join(names))}: ")
        yield Piece(says, colour)
        yield Piece(f"{of}\n")


def _judged(result: VariantResult, on: Card | None) -> tuple[str, str, str]:
    """The verdict, its colour, and of what it is the verdict."""
    if on is not None:
        says = verdict(result, on)
        colour = {Verdict.FITS: "green", Verdict.DOES_NOT_FIT: "red"}.get(says, "yellow")
        return says.value, f"bold {colour}", f" ({on.name}, {size(on.usable)} usable)"
    fitting = [card for card in CARDS if verdict(result, card) is Verdict.FITS]
    smallest = min(fitting, key=lambda card: card.usable, default=None)
    if smallest is None:
        return "fits no single card known", "", ""
    return f"fits from {smallest.name} ({size(smallest.usable)} usable)", "", ""


def _assumptions(results: Sequence[VariantResult]) -> Iterator[Piece]:
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


def _failed(failure: Failure) -> Iterator[Piece]:
    yield Piece("failed", "bold red")
    of = f" of {failure.variant}" if failure.variant else ""
    yield Piece(f" ({failure.stage}{of}): {visible(failure.message)}\n")
    if failure.location is not None and f":{failure.location.line}" not in failure.message:
        yield Piece(f"  at {visible(_short(failure.location.path))}:{failure.location.line}\n")
    if failure.missing is not None:
        if failure.missing.fact != failure.message:
            yield Piece(f"  not known: {visible(failure.missing.fact)}\n")
        yield Piece(f"  {visible(failure.missing.how)}\n", "bold")


def size(value: float) -> str:
    """A number of bytes as people say it, in binary units."""
    for unit, step in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if value >= step:
            return f"{value / step:.1f} {unit}"
    return f"{int(value)} B"


def _between(given: Range | None) -> str:
    if given is None:
        return ""
    if given.low == given.high:
        return size(given.low)
    high = size(given.high)
    unit = {"GiB": 2**30, "MiB": 2**20, "KiB": 2**10}.get(high.rpartition(" ")[2], 1)
    return f"{given.low / unit:.1f} to {high}"


def _short(path: str) -> str:
    relative = os.path.relpath(path) if os.path.isabs(path) else path  # noqa: PTH117
    return path if relative.startswith(os.pardir) else relative
