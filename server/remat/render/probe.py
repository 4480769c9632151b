"""What a probe found, as a table with bars and as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from remat.probe.gpus import CARDS, UNKNOWN, Verdict, process_bytes, verdict
from remat.probe.messages import AGREES_WITHIN, is_far
from remat.render.probe_details import assumptions, details, failures
from remat.render.sizes import between, size
from remat.render.terminal import Piece, visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from remat.probe.gpus import Card
    from remat.probe.messages import Environment, Failure, Range, VariantResult

_MOST_DETAILED = 4  # variants of which each is told in detail; of more, the table alone
_BAR = 40  # cells of the longest bar
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
            yield from details(result)
        yield from _verdicts(probed)
        yield from assumptions(probed.variants)
    yield from failures(probed.failures)


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
        pairs = {"allocated": (was.allocated_bytes, came.allocated_bytes)}
        if was.reserved_bytes is not None and came.reserved_bytes:
            pairs["reserved"] = (was.reserved_bytes, came.reserved_bytes)
        name = came.name.removesuffix(", measured")
        told = ", ".join(f"{what} {one / max(other, 1) - 1:+.2%}" for what, (one, other) in pairs.items())
        yield Piece(f"{visible(name)}: the estimate differs from the measurement by {told}\n")
        if any(is_far(*pair) for pair in pairs.values()):
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
    return size(result.allocated_bytes), reserved, between(_process(result, probed))


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


def _verdicts(probed: Probed) -> Iterator[Piece]:
    if probed.device != "cuda" and probed.on is None:
        return
    yield Piece("\n")
    judged: dict[tuple[str, str, str], list[str]] = {}
    for result in probed.variants:
        judged.setdefault(_judged(result, probed.on or probed.card), []).append(result.name)
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
    every = "every card known, the smallest of which is" if len(fitting) == len(CARDS) else "from"
    return f"fits {every} {smallest.name} ({size(smallest.usable)} usable)", "", ""
