"""A call of torch's `checkpoint` or `checkpoint_sequential` that does not say `use_reentrant`.

## Why
Without the argument every torch up to 2.14 runs the reentrant variant; since 2.1 it warns as well. (The warning has
announced an error for 2.4, 2.5 and 2.9; no version up to 2.14.1 raises.) The reentrant variant

- gives the parameters inside no gradient when no tensor argument requires one (raw batches, frozen embeddings),
- refuses `torch.autograd.grad`, and gives no gradient at all under `backward(inputs=…)`,
- does not see tensors inside dicts or lists, and refuses keyword arguments for the wrapped callable,
- fails under `DistributedDataParallel(find_unused_parameters=True)`.

`use_reentrant=False` has none of these limits. Say which one you want.

## What is not reported
Calls with `**kwargs` that may hold the argument, branches behind a version check, functions of the same name from other
libraries (timm, DeepSpeed, fairscale …). Where a name may be torch's or another library's, the finding is information
and offers no fix: the other function takes no such keyword.

## Fix safety
The fix adds `use_reentrant=False`. It is safe where everything the wrapped callable runs is visible in the file and holds
no custom `torch.autograd.Function`, and the project does not shard with `fully_shard`; else it is offered for review:
hooks, nested checkpoints and custom Functions can behave differently. No fix is offered in a project that trains PEFT
adapters under DeepSpeed ZeRO-3, where the non-reentrant variant fails with a CheckpointError (recomputed shape `[0]`),
nor where keywords are forwarded (see `keyword-to-reentrant-checkpoint`).

## References
- https://docs.pytorch.org/docs/stable/checkpoint.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from remat.finding import Edit, Finding, Fix, Severity
from remat.lint.checkpointing import CHECKPOINTS, Checkpointing, Form, Variant, checkpointings
from remat.lint.edits import add_argument, replace
from remat.lint.guards import behind_version_guard
from remat.lint.names import UNKNOWN
from remat.lint.project import Fact
from remat.lint.rule import Bad, Context, Good, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remat.lint.source import Source
    from remat.versions import Versions


def check(source: Source, context: Context) -> Iterator[Finding]:
    for use in checkpointings(source):
        if use.variant is not Variant.OMITTED or use.form is Form.PARTIAL_CALL:
            continue  # a partial is reported, and repaired, where it is made
        if use.form is Form.PARTIAL and _callers_say(source):
            continue
        span = source.span(use.call.place, use.call.node.func)
        if span is None or behind_version_guard(use.call.place, use.call.node):
            continue
        severity = Severity.WARNING if use.certain else Severity.INFO
        yield Finding(RULE.name, span, _message(use, context.versions), severity, _fix(source, use, context))


def _callers_say(source: Source) -> bool:
    """Whether every call of such a partial in this file gives the argument itself."""
    uses = [u for u in checkpointings(source) if u.form is Form.PARTIAL_CALL]
    return bool(uses) and all(u.variant is not Variant.OMITTED for u in uses)


def _message(use: Checkpointing, versions: Versions) -> str:
    if not use.certain:
        others = sorted(n for n in use.call.names if n not in CHECKPOINTS and n != UNKNOWN)
        other = f"`{others[0]}`" if others else "something else"
        return (
            f"`{use.function}` is torch's or {other} here; where it is torch's, it runs the reentrant variant, since "
            f"`use_reentrant` is not given (no fix: the other may not take it)"
        )
    modern = versions.at_least("torch", "2.1")
    which = "torch" if versions.get("torch") is None else versions.describe("torch")
    warns = "silently runs" if modern is False else "warns and runs"
    return (
        f"`{use.function}` without `use_reentrant`: {which} {warns} the reentrant variant, which gives no gradients when "
        f"no input requires them and refuses `torch.autograd.grad`; say `use_reentrant=False`"
    )


def _fix(source: Source, use: Checkpointing, context: Context) -> Fix | None:
    adapters = context.project.says(Fact.ZERO3) and context.project.says(Fact.PEFT)
    unsupported = use.sequential and context.versions.at_least("torch", "2.0") is False
    if not use.certain or use.forwarded or adapters or unsupported:
        return None
    edits: tuple[Edit, ...]
    if use.said is None:
        edits = add_argument(source, use.call, "use_reentrant=False")
    else:
        edits = replace(source, use.call.place, use.said.value, "False")
    return Fix("Pass `use_reentrant=False`", edits) if edits else None


RULE = Rule(
    __name__,
    __doc__,
    Severity.WARNING,
    check,
    words=("checkpoint",),
    targets=CHECKPOINTS,
    examples=(
        Bad(
            """
            from torch.utils.checkpoint import checkpoint
            y = «checkpoint»(block, x)
            """,
            fixed="""
            from torch.utils.checkpoint import checkpoint
            y = checkpoint(block, x, use_reentrant=False)
            """,
        ),
        Good(
            """
            from torch.utils.checkpoint import checkpoint
            y = checkpoint(block, x, **options)
            """,
            because="`options` may hold use_reentrant; adding it again would raise TypeError",
        ),
    ),
)
