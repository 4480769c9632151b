"""Advice about one model: asks a warm worker for each change that is thought of."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from remat.probe import advise, run
from remat.probe.messages import Failure, Progress, VariantResult

if TYPE_CHECKING:
    from collections.abc import Callable

    from remat.probe.gpus import Card
    from remat.probe.messages import Request, Variant


@dataclass(frozen=True, slots=True)
class Advice:
    """
    What to change about `base`. `why`: why checkpointing alone does not help, where that is so.

    `plan`, `batch` and `blocks` need a card to fit into, and are empty without one.
    """

    base: VariantResult | None
    why: str | None
    changes: tuple[advise.Change, ...]
    plan: tuple[advise.Change, ...]
    batch: advise.Batch | None
    blocks: advise.Blocks | None
    failures: tuple[Failure, ...]
    simulated: int
    """how many variants were tried"""


def advice(request: Request, python: str, card: Card | None, tell: Callable[[Progress], None]) -> Advice:
    """Advise on the first variant of `request`. Raises OSError where `python` cannot be started."""
    worker = run.start(python, Path(request.folder), mode="estimate")
    try:
        return advice_of(worker, request, card, tell)
    finally:
        run.end(worker)


def advice_of(worker: run.Worker, request: Request, card: Card | None, tell: Callable[[Progress], None]) -> Advice:
    """The same, asking a worker that runs already. One that is ended meanwhile answers nothing more."""
    base = request.variants[0]
    known: dict[Variant, VariantResult | Failure] = {}

    def ask(variant: Variant) -> VariantResult | None:
        plain = replace(variant, name="")  # what it is called makes no difference
        if plain not in known:
            known[plain] = _asked(worker, request, variant, lambda p: tell(replace(p, done=len(known), of=0)))
        answer = known[plain]
        return replace(answer, name=variant.name) if isinstance(answer, VariantResult) else None

    before = ask(base)
    if before is None:
        failures = tuple(one for one in known.values() if isinstance(one, Failure))
        return Advice(None, None, (), (), None, None, failures, len(known))
    why = advise.why_checkpointing_does_not_help(ask, base)
    changes = tuple(advise.changes(ask, base))
    plan = tuple(advise.plan(ask, base, card)) if card else ()
    batch = advise.largest_batch(ask, base, card) if card else None
    blocks = advise.fewest_blocks(ask, base, card) if card else None
    return Advice(before, why, changes, plan, batch, blocks, (), len(known))


def _asked(
    worker: run.Worker, request: Request, variant: Variant, tell: Callable[[Progress], None]
) -> VariantResult | Failure:
    answer: VariantResult | Failure = Failure(variant.name, "build", "the worker gave no answer")
    if not run.alive(worker):
        return answer
    for event in run.ask(worker, replace(request, variants=(variant,), mode="estimate", snapshot=None)):
        if isinstance(event, Progress):
            tell(event)
        elif isinstance(event, VariantResult | Failure):
            answer = event
    return answer
