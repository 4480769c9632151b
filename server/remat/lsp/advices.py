"""Advice about a model and plans for its code, as an editor is told them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from remat.probe.advise import what_dominates
from remat.probe.gpus import Verdict, verdict
from remat.protocol import AdviceRow, AdviseAnswer, FewestBlocks, LargestBatch, PlanBlocks

if TYPE_CHECKING:
    from remat.advising import Advice
    from remat.probe.advise import Blocks, Change
    from remat.probe.gpus import Card
    from remat.probe.messages import Variant, VariantResult


def plan_of(result: VariantResult) -> tuple[PlanBlocks, ...]:
    """What its checkpointing came to: lists of modules, in the model's order."""
    counts: dict[str, int] = {}
    for one in result.checkpointed:
        counts[one.module] = counts.get(one.module, 0) + one.count
    return tuple(
        PlanBlocks(path, count, sum(one.count for one in result.by_module if one.module == path))
        for path, count in counts.items()
    )


def answer_of(advice: Advice, card: Card | None) -> AdviseAnswer:
    base, batch, blocks = advice.base, advice.batch, advice.blocks
    fits = verdict(base, card) is Verdict.FITS if base is not None and card is not None else None
    return AdviseAnswer(
        gpu=card.name if card is not None else None,
        dominant=what_dominates(base) if base is not None else "",
        why=advice.why,
        changes=tuple(_change(change, card) for change in advice.changes),
        steps=tuple(_change(change, card) for change in advice.plan),
        fits=fits,
        largest_batch=LargestBatch(batch.size, batch.beyond, batch.minimum_bytes) if batch is not None else None,
        fewest_blocks=_fewest(blocks, base, card) if blocks is not None and base is not None else None,
        simulated=advice.simulated,
        failures=advice.failures,
    )


def _change(change: Change, card: Card | None) -> AdviceRow:
    return _row(change.what, change.variant, change.before, change.after, card)


def _fewest(blocks: Blocks, base: VariantResult, card: Card | None) -> FewestBlocks:
    which = "every block" if blocks.count == blocks.of else f"the first {blocks.count} of {blocks.of} blocks"
    row = _row(f"checkpoint {which}", blocks.variant, base, blocks.result, card)
    return FewestBlocks(blocks.count, blocks.of, blocks.infeasible, row)


def _row(what: str, variant: Variant, before: VariantResult, after: VariantResult, card: Card | None) -> AdviceRow:
    return AdviceRow(
        what=what,
        variant=variant,
        before_bytes=before.allocated_bytes,
        after_bytes=after.allocated_bytes,
        peak_phase=after.peak_phase,
        verdict=verdict(after, card).value if card is not None else None,
        plan=plan_of(after) if after.active and not before.active else (),
    )
