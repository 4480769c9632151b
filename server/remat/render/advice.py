"""Advice about a model's memory, as text and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from remat.probe.gpus import Verdict, verdict
from remat.render.sizes import size
from remat.render.terminal import Piece, visible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remat.advising import Advice
    from remat.probe.advise import Change
    from remat.probe.gpus import Card


def as_json(advice: Advice, card: Card | None) -> dict[str, object]:
    """One object; every change with the peak before and after it."""
    batch, blocks = advice.batch, advice.blocks
    return {
        "why_checkpointing_does_not_help": advice.why,
        "changes": [_change(change, card) for change in advice.changes],
        "plan": [_change(change, card) for change in advice.plan],
        "largest_batch": None
        if batch is None
        else {"size": batch.size, "does_not_fit": batch.beyond, "minimum_bytes": batch.minimum_bytes},
        "fewest_blocks": None
        if blocks is None
        else {
            "count": blocks.count,
            "of": blocks.of,
            "infeasible": blocks.infeasible,
            "allocated_bytes": blocks.result.allocated_bytes,
        },
        "simulated": advice.simulated,
    }


def _change(change: Change, card: Card | None) -> dict[str, object]:
    told: dict[str, object] = {
        "change": change.what,
        "variant": asdict(change.variant),
        "allocated_bytes_before": change.before.allocated_bytes,
        "allocated_bytes": change.after.allocated_bytes,
        "peak_phase": change.after.peak_phase,
    }
    return told | {"verdict": verdict(change.after, card).value} if card else told


def as_text(advice: Advice, card: Card | None) -> Iterator[Piece]:
    """What to do first, then what else there is."""
    yield Piece("\nadvice", "bold")
    yield Piece(f" ({advice.simulated} variants simulated)\n", "dim")
    if advice.why:
        yield Piece(f"  {visible(advice.why)}\n", "yellow")
    if not advice.changes:
        yield Piece("  no single change that is known lowers the peak by more than 2 %\n")
    for change in advice.changes:
        yield Piece(f"  {_signed(-change.gain):>11}  ", "green")
        after = change.after
        yield Piece(f"{change.what}: peak {size(after.allocated_bytes)} in {after.peak_phase}\n")
    if card is not None:
        yield from _for_card(advice, card)


def _for_card(advice: Advice, card: Card) -> Iterator[Piece]:
    yield Piece(f"\nto fit into {visible(card.name)} ({size(card.usable)} usable)\n", "bold")
    if advice.base is not None and verdict(advice.base, card) is Verdict.FITS:
        yield Piece("  it fits as it is\n", "green")
    elif advice.plan:
        for number, step in enumerate(advice.plan, 1):
            yield Piece(f"  {number}. {step.what}: {size(step.after.allocated_bytes)} in {step.after.peak_phase}\n")
        last = verdict(advice.plan[-1].after, card)
        yield Piece(f"  then: {last.value}\n", "bold green" if last is Verdict.FITS else "bold yellow")
    else:
        yield Piece("  no change that is known makes it fit\n", "bold red")
    if blocks := advice.blocks:
        said = (
            f"not even all {blocks.of} blocks checkpointed fit: that needs {size(blocks.result.allocated_bytes)}"
            if blocks.infeasible
            else f"by checkpointing alone: the first {blocks.count} of {blocks.of} blocks"
            + (f" (with {blocks.count - 1} it does not surely fit)" if blocks.count > 1 else "")
        )
        yield Piece(f"  {said}\n")
    if batch := advice.batch:
        yield Piece(f"  {_batch(batch.size, batch.beyond, batch.minimum_bytes)}\n")


def _batch(largest: int, beyond: int | None, minimum: int | None) -> str:
    if not largest:
        return f"no batch fits as it is: a batch of 1 needs up to {size(minimum or 0)}"
    return f"largest batch as it is: {largest}" + (f" ({beyond} does not surely fit)" if beyond else "")


def _signed(value: int) -> str:
    return f"-{size(-value)}" if value < 0 else f"+{size(value)}"
