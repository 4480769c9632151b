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
The fix adds `use_reentrant=False`. It is safe where everything the wrapped callable runs is visible in the file and
holds no custom `torch.autograd.Function`, decorator or foreign base class, no hook is registered in the file, and
nothing in the project shards with `fully_shard`; else it is offered for review: hooks, nested checkpoints and custom
Functions can behave differently. No fix is offered in a project that trains PEFT adapters under DeepSpeed ZeRO-3, where
the non-reentrant variant fails with a CheckpointError (recomputed shape `[0]`), nor where keywords are forwarded (see
`keyword-to-reentrant-checkpoint`).

## References
- https://docs.pytorch.org/docs/stable/checkpoint.html
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from remat.finding import Finding, Fix, Severity
from remat.lint.checkpointing import CHECKPOINTS, Checkpointing, Form, Variant, checkpointings
from remat.lint.code.guards import behind_version_guard
from remat.lint.code.names import UNKNOWN
from remat.lint.edits import add_argument, replace
from remat.lint.project import Fact
from remat.lint.rule import Bad, Context, Good, Rule
from remat.lint.wrapped import seen_whole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remat.lint.code.source import Source


_HOOK = re.compile(r"register_\w*hook")
_VERBS = ("convert", "replace", "swap", "quanti", "patch", "inject")
_CONVERTS = re.compile(
    rf"(?<!def )\b\w*(?:{'|'.join(_VERBS)})\w*\(\s*(?:[\w.]*(?:model|module|net|encoder|decoder)\w*\s*[,)=]|[A-Z]\w*\()"
)


def check(source: Source, context: Context) -> Iterator[Finding]:
    uses = checkpointings(source)
    for use in uses:
        if use.variant is not Variant.OMITTED or use.form is Form.PARTIAL_CALL:
            continue  # a partial is reported, and repaired, where it is made
        if use.form is Form.PARTIAL and _callers_say(uses):
            continue
        span = source.span(use.call.place, use.call.node.func)
        if span is None or behind_version_guard(source, use.call.at(use.call.node)):
            continue
        severity = Severity.WARNING if use.certain else Severity.INFO
        yield Finding(RULE.name, span, _message(use, context), severity, _fix(source, use, uses, context))


def _callers_say(uses: list[Checkpointing]) -> bool:
    """Whether every call of a partial in this file gives the argument itself."""
    calls = [u for u in uses if u.form is Form.PARTIAL_CALL]
    return bool(calls) and all(u.variant is not Variant.OMITTED for u in calls)


def _message(use: Checkpointing, context: Context) -> str:
    versions = context.versions
    if not use.certain:
        others = sorted(n for n in use.call.names if n not in CHECKPOINTS and n != UNKNOWN)
        other = f"`{others[0]}`" if others else "something else"
        return (
            f"`{use.function}` is torch's or {other} here; where it is torch's, it runs the reentrant variant, since "
            f"`use_reentrant` is not given (no fix: the other function may not take it)"
        )
    advice = "say `use_reentrant=False`"
    if context.project.adapters_under_zero3:
        advice = "say `use_reentrant=True`: PEFT under ZeRO-3 fails with the non-reentrant variant"
    runs = "silently runs" if versions.at_least("torch", "2.1") is False else "warns and runs"
    return (
        f"`{use.function}` without `use_reentrant`: {versions.describe('torch')} {runs} the reentrant variant, which "
        "gives no gradients when no input requires them and refuses `torch.autograd.grad`; " + advice
    )


def _fix(source: Source, use: Checkpointing, uses: list[Checkpointing], context: Context) -> Fix | None:
    adapters = context.project.adapters_under_zero3
    unsupported = context.versions.at_least("torch", "2.0" if use.sequential else "1.11") is False
    hidden = any(a.star == "**" for a in use.call.node.args)  # what is seen today may hold more tomorrow
    forwards = hidden or use.forwarded or (use.form is Form.PARTIAL and any(u.forwarded for u in uses))
    if not use.certain or forwards or adapters or unsupported:
        return None
    if use.said is None:
        edits = add_argument(source, use.call, "use_reentrant=False")
    else:
        edits = replace(source, use.call.place, use.said.value, "False")
    return Fix("Pass use_reentrant=False", edits, safe=_is_safe(source, use, context)) if edits else None


def _is_safe(source: Source, use: Checkpointing, context: Context) -> bool:
    if use.form is Form.PARTIAL or use.wrapped is None:
        return False
    if context.project.says(Fact.FSDP2) or source.once(_shards_or_hooks):
        return False
    return seen_whole(source, use.wrapped.value, use.call.scope, use.call.place)


def _shards_or_hooks(source: Source) -> bool:
    """Whether parameters are sharded here, or hooks registered, which run once more or less in the other variant.

    Or a function that is not seen puts other layers, with forwards of their own, in the place of those that are.
    """
    words = source.words
    if "fully_shard" in words or "convert_sync_batchnorm" in words:
        return True
    if "register_" in words and _HOOK.search(source.text):
        return True
    return any(verb in words for verb in _VERBS) and _CONVERTS.search(source.text) is not None


EXAMPLES = (
    Bad(
        """
        from torch.utils.checkpoint import checkpoint
        y = «checkpoint»(block, x)
        """,
        fixed="""
        from torch.utils.checkpoint import checkpoint
        y = checkpoint(block, x, use_reentrant=False)
        """,
        versions="torch=2.9.1",
        says=("torch 2.9.1 warns and runs the reentrant variant",),
    ),
    Bad(
        """
        import torch.utils.checkpoint as cp
        run = cp.checkpoint
        y = «run»(
            block,  # the expensive half
            x,
        )
        """,
        fixed="""
        import torch.utils.checkpoint as cp
        run = cp.checkpoint
        y = run(
            block,  # the expensive half
            x,
            use_reentrant=False,
        )
        """,
        versions="torch=2.0.1",
        says=("torch 2.0.1 silently runs the reentrant variant",),
    ),
    Bad(
        """
        from torch import nn
        from torch.utils.checkpoint import checkpoint

        class Block(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.act = nn.GELU()
                self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
            def forward(self, x):
                return x + self.mlp(self.act(x))

        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.blocks = nn.ModuleList([Block(64) for _ in range(4)])
            def forward(self, x):
                for block in self.blocks:
                    x = «checkpoint»(block, x)
                return x
        """,
        fixed="""
        from torch import nn
        from torch.utils.checkpoint import checkpoint

        class Block(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.act = nn.GELU()
                self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
            def forward(self, x):
                return x + self.mlp(self.act(x))

        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.blocks = nn.ModuleList([Block(64) for _ in range(4)])
            def forward(self, x):
                for block in self.blocks:
                    x = checkpoint(block, x, use_reentrant=False)
                return x
        """,
        safe=True,
    ),
    Bad(
        """
        import torch
        from torch.utils import checkpoint as ckpt

        class Scale(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2
            @staticmethod
            def backward(ctx, g):
                return g * 2

        def block(x):
            return Scale.apply(x)

        y = «ckpt.checkpoint»(block, x)
        """,
        fixed="""
        import torch
        from torch.utils import checkpoint as ckpt

        class Scale(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2
            @staticmethod
            def backward(ctx, g):
                return g * 2

        def block(x):
            return Scale.apply(x)

        y = ckpt.checkpoint(block, x, use_reentrant=False)
        """,
    ),
    Bad(
        """
        import torch
        y = «torch.utils.checkpoint.checkpoint_sequential»(stages, 4, x)
        """,
        fixed="""
        import torch
        y = torch.utils.checkpoint.checkpoint_sequential(stages, 4, x, use_reentrant=False)
        """,
    ),
    Bad(
        """
        from torch.utils.checkpoint import checkpoint
        y = «checkpoint»(block, x, use_reentrant=None)
        """,
        fixed="""
        from torch.utils.checkpoint import checkpoint
        y = checkpoint(block, x, use_reentrant=False)
        """,
    ),
    Bad(
        """
        from functools import partial
        from torch.utils.checkpoint import checkpoint
        run = «partial»(checkpoint, preserve_rng_state=False)
        y = run(block, x)
        """,
        fixed="""
        from functools import partial
        from torch.utils.checkpoint import checkpoint
        run = partial(checkpoint, preserve_rng_state=False, use_reentrant=False)
        y = run(block, x)
        """,
    ),
    Bad(
        """
        from torch.utils.checkpoint import checkpoint

        @«checkpoint»(preserve_rng_state=False)
        def block(x):
            return x.relu()
        """,
        fixed="""
        from torch.utils.checkpoint import checkpoint

        @checkpoint(preserve_rng_state=False, use_reentrant=False)
        def block(x):
            return x.relu()
        """,
        versions="torch=2.14.1",
    ),
    Bad(
        """
        import os
        if os.environ.get("ENGINE") == "deepspeed":
            from deepspeed.checkpointing import checkpoint
        else:
            from torch.utils.checkpoint import checkpoint
        y = «checkpoint»(block, x)
        """,
        severity=Severity.INFO,
        says=("`deepspeed.checkpointing.checkpoint`", "no fix"),
    ),
    Bad(
        """
        from torch.utils.checkpoint import checkpoint
        y = «checkpoint»(block, x)
        """,
        beside={"ds.json": '{"zero_optimization": {"stage": 3}}', "lora.py": "from peft import LoraConfig\n"},
    ),
    Bad(
        """
        from torch.utils.checkpoint import checkpoint
        y = «checkpoint»(block, x, mask=mask)
        """,
    ),
    Good(
        """
        from torch.utils.checkpoint import checkpoint
        y = checkpoint(block, x, **options)
        """,
        because="`options` may hold use_reentrant; adding it again would raise TypeError",
    ),
    Good(
        """
        import functools
        from torch.utils.checkpoint import checkpoint, checkpoint_sequential
        run = functools.partial(checkpoint, use_reentrant=False)
        y = run(block, x)
        z = checkpoint_sequential(stages, 2, y, False)
        """,
        because="the partial says it, and the fourth positional argument of checkpoint_sequential is use_reentrant",
    ),
    Good(
        """
        from functools import partial
        from torch.utils.checkpoint import checkpoint
        run = partial(checkpoint, preserve_rng_state=False)
        y = run(block, x, use_reentrant=False)
        """,
        because="every call of the partial says it",
    ),
    Good(
        """
        import torch
        from packaging import version
        from torch.utils.checkpoint import checkpoint
        if version.parse(torch.__version__) >= version.parse("1.11"):
            y = checkpoint(block, x, use_reentrant=False)
        else:
            y = checkpoint(block, x)
        """,
        because="the branch without the keyword is for versions that do not take it",
    ),
    Good(
        """
        from torch.utils.checkpoint import checkpoint
        def run(checkpoint, block, x):
            return checkpoint(block, x)
        """,
        because="the parameter hides the import",
    ),
    Good(
        """
        import torch
        from timm.models import checkpoint
        import fairscale.nn.checkpoint as fs
        y = checkpoint(block, x)
        z = fs.checkpoint_wrapper(block)(y)
        torch.save(checkpoint, path)
        """,
        because="other libraries' functions of the same name have other defaults",
    ),
    Good(
        """
        import torch.distributed.checkpoint as dcp
        def checkpoint(epoch):
            dcp.save(state, checkpoint_id=epoch)
        checkpoint(3)
        """,
        because="saving a model is something else",
    ),
    Good(
        """
        from torch.utils.checkpoint import checkpoint

        @checkpoint(use_reentrant=False)
        def block(x):
            return x.relu()
        y = checkpoint(use_reentrant=False)(other)(x)
        """,
        because="the decorator and curried forms of torch 2.14 say it too",
        versions="torch=2.14.1",
    ),
)

RULE = Rule(
    __name__,
    __doc__,
    Severity.WARNING,
    check,
    words=("checkpoint",),
    targets=CHECKPOINTS,
    examples=EXAMPLES,
)
