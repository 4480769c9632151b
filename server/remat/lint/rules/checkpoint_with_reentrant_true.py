"""Activation checkpointing that asks for the reentrant variant: `use_reentrant=True`, in whatever spelling.

## Why
It is a choice, and sometimes the right one (PEFT adapters under DeepSpeed ZeRO-3 need it). It rules out

- `torch.autograd.grad` and `backward(inputs=…)`: an error, or no gradient at all,
- gradients for the parameters inside when no tensor argument requires one: they stay None with only a warning,
- gradients for tensors inside dicts, lists or dataclasses, and keyword arguments for the wrapped callable,
- `DistributedDataParallel(find_unused_parameters=True)`, and the same layer checkpointed twice under DDP.

## What is not reported
A value that is decided elsewhere (a flag, a configuration, a conditional expression), and any project that trains PEFT
adapters under DeepSpeed ZeRO-3.

## Fix safety
The fix writes `False` (`CheckpointImpl.NO_REENTRANT`) in place of the literal. It is offered for review only: somebody
chose this variant, perhaps for a reason that is not in this file.

## References
- https://docs.pytorch.org/docs/stable/checkpoint.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from remat.finding import Edit, Finding, Fix, Severity
from remat.lint.checkpointing import CHECKPOINTS, REENTRANT_IMPL, Form, Variant, checkpointings
from remat.lint.code.definitions import values_of
from remat.lint.code.guards import behind_version_guard
from remat.lint.code.syntax import is_literal, string_value
from remat.lint.edits import replace
from remat.lint.rule import Bad, Context, Good, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remat.lint.code.source import At, Source

_FORBIDS = (
    "no `torch.autograd.grad` or `backward(inputs=…)`, no gradients for the parameters inside unless a tensor argument "
    "requires one, none through dicts or lists"
)

_KEYWORDS = ", no keyword arguments"  # torch's wrapper and transformers pack those themselves


def check(source: Source, context: Context) -> Iterator[Finding]:
    if context.project.adapters_under_zero3:
        return
    own = set()
    for use in checkpointings(source):
        own.add(id(use.call.node))
        if use.variant is Variant.REENTRANT and use.said is not None and use.said in use.call.node.args:
            partial = " (bound with functools.partial)" if use.form is Form.PARTIAL else ""
            at = use.call.at(use.call.node.func)
            fixable = not use.forwarded  # with forwarded keywords the other rule's fix does it all
            yield from _finding(
                source, at, f"`{use.function}`{partial}", use.said.value if fixable else None, also=_KEYWORDS
            )
    for call in source.nodes(cst.Call):
        if id(call.node) not in own:
            yield from _other_call(source, call)
    for mapping in source.nodes(cst.Dict):
        value = _entry(mapping.node)
        if value is not None and _is_true(source, mapping, value) and not _compared(mapping):
            yield from _finding(source, mapping, "this dict", value)


def _other_call(source: Source, call: At[cst.Call]) -> Iterator[Finding]:
    """Somebody's wrapper, `dict(use_reentrant=True)`, or a wrapper given `CheckpointImpl.REENTRANT`."""
    for arg in call.node.args:
        keyword = arg.keyword.value if arg.keyword else None
        if keyword == "use_reentrant" and _is_true(source, call, arg.value):
            yield from _finding(source, call, "this call", arg.value)
        elif _is_reentrant_impl(source, call, arg.value):
            yield from _finding(source, call, "`CheckpointImpl.REENTRANT`", _attribute(arg.value), "NO_REENTRANT")


def _attribute(value: cst.BaseExpression) -> cst.CSTNode | None:
    return value.attr if isinstance(value, cst.Attribute) else None


def _is_reentrant_impl(source: Source, call: At[cst.Call], value: cst.BaseExpression) -> bool:
    named = type(value) is cst.Attribute and value.attr.value == "REENTRANT"
    return named and REENTRANT_IMPL in source.meanings(value, call.scope, call.place)


def _entry(mapping: cst.Dict) -> cst.BaseExpression | None:
    """The value under the key "use_reentrant"."""
    return next(
        (
            e.value
            for e in mapping.elements
            if isinstance(e, cst.DictElement) and string_value(e.key) == "use_reentrant"
        ),
        None,
    )


def _compared(mapping: At[cst.Dict]) -> bool:
    """Whether the dict only says what another one should equal, as in a test."""
    return any(isinstance(a, cst.Comparison | cst.Assert) for a in mapping.place.parsed.ancestors(mapping.node))


def _is_true(source: Source, at: At[cst.CSTNode], value: cst.BaseExpression) -> bool:
    values = values_of(source, value, at.scope, at.place)
    return bool(values) and all(is_literal(v, "True") for v in values)


def _finding(
    source: Source,
    at: At[cst.CSTNode],
    what: str,
    value: cst.CSTNode | None,
    instead: str = "False",
    also: str = "",
) -> Iterator[Finding]:
    node = at.node.func if isinstance(at.node, cst.Call) else at.node
    span = source.span(at.place, node)
    if span is None or behind_version_guard(source, at):
        return
    edits: tuple[Edit, ...] = ()
    if value is not None and (instead != "False" or is_literal(value, "True")):
        edits = replace(source, at.place, value, instead)
    fix = Fix(f"Use the non-reentrant variant ({instead})", edits) if edits else None
    yield Finding(
        RULE.name, span, f"{what} asks for the reentrant variant of checkpointing: {_FORBIDS}{also}", Severity.INFO, fix
    )


EXAMPLES = (
    Bad(
        """
        from torch.utils.checkpoint import checkpoint
        y = «checkpoint»(block, x, use_reentrant=True)
        """,
        fixed="""
        from torch.utils.checkpoint import checkpoint
        y = checkpoint(block, x, use_reentrant=False)
        """,
    ),
    Bad(
        """
        import torch.utils.checkpoint
        USE_REENTRANT = True
        y = «torch.utils.checkpoint.checkpoint»(block, x, use_reentrant=USE_REENTRANT)
        """,
    ),
    Bad(
        """
        from functools import partial
        from torch.utils.checkpoint import checkpoint
        run = «partial»(checkpoint, use_reentrant=True)
        y = run(block, x)
        """,
        fixed="""
        from functools import partial
        from torch.utils.checkpoint import checkpoint
        run = partial(checkpoint, use_reentrant=False)
        y = run(block, x)
        """,
    ),
    Bad(
        """
        import torch
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=«{"use_reentrant": True}»)
        options = «dict»(use_reentrant=True)
        """,
        fixed="""
        import torch
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        options = dict(use_reentrant=False)
        """,
    ),
    Bad(
        """
        from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointImpl, checkpoint_wrapper
        block = «checkpoint_wrapper»(block, checkpoint_impl=CheckpointImpl.REENTRANT)
        """,
        fixed="""
        from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointImpl, checkpoint_wrapper
        block = checkpoint_wrapper(block, checkpoint_impl=CheckpointImpl.NO_REENTRANT)
        """,
    ),
    Bad(
        """
        from torch.utils.checkpoint import checkpoint_sequential
        y = «checkpoint_sequential»(stages, 2, x, True)
        """,
        fixed="""
        from torch.utils.checkpoint import checkpoint_sequential
        y = checkpoint_sequential(stages, 2, x, False)
        """,
    ),
    Good(
        """
        from torch.utils.checkpoint import checkpoint
        y = checkpoint(block, x, use_reentrant=self.reentrant)
        z = checkpoint(block, x, use_reentrant=False)
        """,
        because="a value decided elsewhere is not known to be True",
    ),
    Good(
        """
        import torch
        from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointImpl
        impl = CheckpointImpl.REENTRANT if args.reentrant else CheckpointImpl.NO_REENTRANT
        run = partial(wrap, checkpoint_impl=CheckpointImpl.REENTRANT if args.reentrant else CheckpointImpl.NO_REENTRANT)
        options = {"use_reentrant": args.reentrant}
        assert options == {"use_reentrant": True}
        """,
        because="a flag chooses; and a dict that is only compared with asks for nothing",
    ),
    Good(
        """
        from torch.utils.checkpoint import checkpoint
        y = checkpoint(block, x, use_reentrant=True)
        """,
        because="with frozen parameters under ZeRO-3 the non-reentrant variant fails: True is right here",
        beside={"ds.json": '{"zero_optimization": {"stage": 3}}', "lora.py": "from peft import LoraConfig\n"},
    ),
)

RULE = Rule(
    __name__,
    __doc__,
    Severity.INFO,
    check,
    words=("checkpoint", "reentrant", "REENTRANT"),
    targets=CHECKPOINTS,
    examples=EXAMPLES,
)
