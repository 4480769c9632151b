"""What to change so that a step fits, or needs less: every change is simulated anew before it is named."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from remat.probe.gpus import Verdict, surely_needed, verdict
from remat.probe.messages import AS_WRITTEN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remat.probe.gpus import Card
    from remat.probe.messages import Variant, VariantResult

    class Ask(Protocol):
        """The results of variants; None for one that does not apply to the model. Asked twice, it answers from memory.

        To ask for several at once is quicker: they share what does not differ. Their names differ.
        """

        def __call__(self, *variants: Variant) -> list[VariantResult | None]: ...


_PASSING = ("temporaries", "activations", "recomputed", "outputs", "workspaces")
_WORTH = 0.02  # of the peak; a smaller gain is no advice
_MOST_STEPS = 4
_MOST_TRIES = 14
_LARGEST_BATCH = 1 << 20


@dataclass(frozen=True, slots=True)
class Change:
    """One change to `before`, and what it does to the peak. `what`: the change, as an instruction."""

    what: str
    variant: Variant
    before: VariantResult
    after: VariantResult

    @property
    def gain(self) -> int:
        return self.before.allocated_bytes - self.after.allocated_bytes


@dataclass(frozen=True, slots=True)
class Batch:
    """The largest batch that surely fits: `size` and its result; `beyond`: the next one tried that does not."""

    size: int
    result: VariantResult | None
    beyond: int | None
    minimum_bytes: int | None
    """what a batch of 1 needs, where not even that fits"""


@dataclass(frozen=True, slots=True)
class Blocks:
    """The fewest of `of` equal blocks to checkpoint, from the first on, so that the step fits."""

    count: int
    of: int
    variant: Variant
    result: VariantResult
    infeasible: bool
    """not even all of them suffice: `count` is all, and `result` what is then needed"""


def changes(ask: Ask, base: Variant, card: Card | None = None) -> list[Change]:
    """Single changes that lower the peak, the greatest gain first. Empty where `base` itself can't be probed.

    `card`: what they are to run on; its cores decide which half precision is named.
    """
    (before,) = ask(base)
    if before is None:
        return []
    levers = list(_levers(base, before, card))
    results = ask(*(variant for _, variant in levers))
    found = [
        Change(what, variant, before, after)
        for (what, variant), after in zip(levers, results, strict=True)
        if after is not None
    ]
    useful = [change for change in found if change.gain > _WORTH * before.allocated_bytes]
    return sorted(useful, key=lambda change: -change.gain)


def plan(ask: Ask, base: Variant, card: Card) -> list[Change]:
    """Changes, one on top of the other, until the step fits or none helps any more.

    Greedy: each time the change that lowers the present peak most. Those that keep the arithmetic come first.
    """
    steps: list[Change] = []
    variant = base
    while len(steps) < _MOST_STEPS:
        (result,) = ask(variant)
        if result is None or verdict(result, card) is Verdict.FITS:
            break
        found = changes(ask, variant, card)
        exact = [change for change in found if _keeps_arithmetic(variant, change.variant)]
        fitting = [change for change in found if verdict(change.after, card) is Verdict.FITS]
        chosen = next((change for change in fitting if change in exact), None) or next(iter(exact or found), None)
        if chosen is None:
            break
        steps.append(chosen)
        variant = chosen.variant
    return steps


def why_checkpointing_does_not_help(ask: Ask, base: Variant) -> str | None:
    """One sentence where checkpointing frees much and the peak hardly moves; None elsewhere."""
    before, after = ask(*_without_and_with(base))
    if before is None or after is None:
        return None
    freed = before.saved_activation_bytes - after.saved_activation_bytes
    moved = before.allocated_bytes - after.allocated_bytes
    if freed < _WORTH * before.allocated_bytes or moved > freed / 2:
        return None
    peak = _largest(after)
    stays = "the peak stays" if moved < _WORTH * before.allocated_bytes else f"the peak falls by {_gib(moved)} only"
    held = f"{_gib(after.by_category[peak])} of {peak}" if peak else "other memory"
    return f"checkpointing frees {_gib(freed)} of activations, {stays}: it is in {after.peak_phase}, with {held}"


def what_dominates(result: VariantResult) -> str:
    """One sentence: what is alive at the peak, the most of it first."""
    held = sorted(((size, name) for name, size in result.by_category.items() if size), reverse=True)
    parts = [f"{_gib(size)} of {name}" for size, name in held[:2]]
    consists = f": {' and '.join(parts)}" if parts else ""
    return f"the peak of {_gib(result.allocated_bytes)} is in {result.peak_phase}{consists}"


def largest_batch(ask: Ask, base: Variant, card: Card) -> Batch | None:
    """The largest batch that surely fits into `card`, found by simulating it and one more; None where none can be."""

    def needed(size: int) -> int | None:
        (result,) = ask(_batched(base, size))
        return None if result is None else surely_needed(result, card)

    one = needed(1)
    if one is None:
        return None
    if one > card.usable:
        return Batch(0, None, 1, one)
    low, high = (1, one), (0, 0)  # a size and what it needs; `high`: the smallest known not to fit, 0 while none is
    size = 4
    for number in range(_MOST_TRIES):
        need = needed(size)
        point, before = (size, need or 0), low
        if need is not None and need <= card.usable:
            low = point
        else:
            high = point
        if high[0] and high[0] - low[0] <= 1:
            break
        size = _next_size(before if low != before else high, low, high[0], card.usable, halve=number > 6)
        if size > _LARGEST_BATCH:
            break
    (result,) = ask(_batched(base, low[0]))
    return Batch(low[0], result, high[0] or None, None)


def _batched(base: Variant, size: int) -> Variant:
    return replace(base, name=f"batch {size}", batch=size)


def _next_size(other: tuple[int, int], low: tuple[int, int], high: int, usable: int, *, halve: bool) -> int:
    """Memory grows by the same amount for each sample, nearly: go where that says the limit is, else to the middle."""
    slope = (other[1] - low[1]) / (other[0] - low[0]) if other[0] != low[0] else 0.0
    guess = low[0] + int((usable - low[1]) / slope) if slope > 0 else 8 * low[0]
    if not high:
        return max(low[0] + 1, min(guess, 64 * low[0]))
    return (low[0] + high) // 2 if halve else min(max(guess, low[0] + 1), high - 1)


def fewest_blocks(ask: Ask, base: Variant, card: Card) -> Blocks | None:
    """How many blocks to checkpoint, by bisection: exact where memory never grows with one block more.

    None where the step fits without any, or the model has no repeated blocks.
    """
    without, chosen = _without_and_with(base)
    none, every = ask(without, chosen)
    if none is None or every is None or verdict(none, card) is Verdict.FITS:
        return None
    of = max((entry.count for entry in every.checkpointed), default=0)
    if of == 0:
        return None
    if verdict(every, card) is not Verdict.FITS:
        return Blocks(of, of, chosen, every, infeasible=True)
    low, high, best = 0, of, every
    while high - low > 1:
        middle = (low + high) // 2
        first = replace(base, name=f"first-{middle}", checkpointing=f"first-{middle}")
        (result,) = ask(first)
        if result is not None and verdict(result, card) is Verdict.FITS:
            high, best, chosen = middle, result, first
        else:
            low = middle
    return Blocks(high, of, chosen, best, infeasible=False)


def _without_and_with(base: Variant) -> tuple[Variant, Variant]:
    return replace(base, name="none", checkpointing="none"), replace(base, name="all", checkpointing="all")


def _levers(base: Variant, result: VariantResult, card: Card | None) -> Iterator[tuple[str, Variant]]:
    """Changes that may move the peak, each with the variant that has it."""
    if not result.active and base.checkpointing != "all":
        yield "checkpoint every block (use_reentrant=False)", replace(base, name="all", checkpointing="all")
        yield (
            "checkpoint selectively, keeping matrix products",
            replace(base, name="selective", checkpointing="selective"),
        )
    if base.optimizer in {AS_WRITTEN, "adamw", "adam", "adamw-foreach", "adam-foreach"}:
        yield "use the fused optimizer: AdamW(…, fused=True)", replace(base, name="fused", optimizer="adamw-fused")
        yield (
            "keep the optimizer's state in 8 bits (bitsandbytes AdamW8bit)",
            replace(base, name="8-bit", optimizer="adamw-8bit"),
        )
    if base.autocast is None and base.dtype is None:
        yield from _half_precision(base, card)
    if base.batch is not None and base.batch > 1 and base.batch % 2 == 0:
        half = replace(base, name="accumulate", batch=base.batch // 2, grad_accum=2 * result.grad_accum)
        yield f"halve the batch to {half.batch} and accumulate {half.grad_accum} of them", half


def _half_precision(base: Variant, card: Card | None) -> Iterator[tuple[str, Variant]]:
    if card is not None and not card.bf16:
        what = f"run the forward pass under autocast to fp16, with a GradScaler ({card.name} has no bf16 cores)"
        yield what, replace(base, name="autocast", autocast="fp16")
        return
    yield "run the forward pass under autocast to bf16", replace(base, name="autocast", autocast="bf16")
    yield (
        "hold parameters and gradients in bf16 (small updates are rounded away)",
        replace(base, name="bf16", dtype="bf16"),
    )


def _keeps_arithmetic(before: Variant, after: Variant) -> bool:
    """Whether the change computes the same numbers, up to rounding: no other dtype, no other state."""
    return (before.dtype, before.autocast) == (after.dtype, after.autocast) and not after.optimizer.endswith("8bit")


def _largest(result: VariantResult) -> str | None:
    """What the phase of the peak itself holds most of; where that is nothing, the largest category."""
    passing = {name: result.by_category.get(name, 0) for name in _PASSING}
    name = max(passing, key=lambda name: passing[name])
    return name if passing[name] else max(result.by_category, key=lambda name: result.by_category[name], default=None)


def _gib(size: float) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.1f} MiB"
