"""Advice about one model: asks a warm worker for each change that is thought of."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from remat.probe import advise, run
from remat.probe.messages import Failure, Progress, VariantResult

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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


def advice_of(
    worker: run.Worker,
    request: Request,
    card: Card | None,
    tell: Callable[[Progress], None],
    answered: Mapping[Variant, VariantResult] | None = None,
) -> Advice:
    """The same, asking a worker that runs already. One that is ended meanwhile answers nothing more.

    `answered`: what it has answered already.
    """
    base = request.variants[0]
    known: dict[Variant, VariantResult | Failure] = {
        replace(variant, name=""): result for variant, result in (answered or {}).items()
    }

    def ask(*variants: Variant) -> list[VariantResult | None]:
        plain = [replace(variant, name="") for variant in variants]  # what it is called makes no difference
        new = {one: variant for one, variant in zip(plain, variants, strict=True) if one not in known}
        if new:
            limits = replace(request.limits, seconds=request.limits.seconds * len(new))
            asked = replace(request, variants=tuple(new.values()), mode="estimate", snapshot=None, limits=limits)
            answers = _answers(worker, asked, lambda p: tell(replace(p, done=len(known) + p.done, of=0)))
            known.update((one, answers[variant.name]) for one, variant in new.items())
        found = zip((known[one] for one in plain), variants, strict=True)
        return [replace(a, name=v.name) if isinstance(a, VariantResult) else None for a, v in found]

    (before,) = ask(base)
    if before is None:
        failures = tuple(one for one in known.values() if isinstance(one, Failure))
        return Advice(None, None, (), (), None, None, failures, len(known))
    why = advise.why_checkpointing_does_not_help(ask, base)
    changes = tuple(advise.changes(ask, base, card))
    plan = tuple(advise.plan(ask, base, card)) if card else ()
    batch = advise.largest_batch(ask, base, card) if card else None
    blocks = advise.fewest_blocks(ask, base, card) if card else None
    return Advice(before, why, changes, plan, batch, blocks, (), len(known))


def _answers(
    worker: run.Worker, request: Request, tell: Callable[[Progress], None]
) -> dict[str, VariantResult | Failure]:
    """The worker's answer to each variant, by its name."""
    names = [variant.name for variant in request.variants]
    answers: dict[str, VariantResult | Failure] = {
        name: Failure(name, "build", "the worker gave no answer") for name in names
    }
    for event in run.ask(worker, request) if run.alive(worker) else ():
        if isinstance(event, Progress):
            tell(event)
        elif isinstance(event, VariantResult):
            answers[event.name] = event
        elif isinstance(event, Failure):
            still_open = [name for name in names if not isinstance(answers[name], VariantResult)]
            answers.update((name, event) for name in still_open if event.variant in {None, name})
    return answers
