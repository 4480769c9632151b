"""A keyword argument for the wrapped callable, given to `checkpoint` while it runs the reentrant variant.

## Why
The reentrant variant takes positional arguments only. The first step with checkpointing switched on raises
`ValueError: Unexpected keyword arguments: …`, on every version of torch; often in a branch that nobody has run yet,
because checkpointing is off by default. `checkpoint_sequential` passes no keyword on in either variant.

Adding `use_reentrant=False` alone is not always enough: where the callable is made by the old factory
(`create_custom_forward(layer)`), its inner function takes `*inputs` only, and the error becomes a TypeError there.

## What is not reported
The keywords that `checkpoint` takes itself (`use_reentrant`, `preserve_rng_state`, `context_fn`, `determinism_check`,
`debug`, `early_stop`); calls whose variant is decided elsewhere; files that compile with `torch.compile`, which
traces the non-reentrant variant whatever the call says; other libraries' functions of the same name.

## Fix safety
The keyword is bound with `functools.partial` and the non-reentrant variant is asked for, so that its gradient is
kept. Offered for review where the callable's signature is in the file and takes the keyword, or where a factory's
inner function hands `*inputs` on to the module that the factory is given. Else no fix is offered.

## References
- https://docs.pytorch.org/docs/stable/checkpoint.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from remat.finding import Edit, Finding, Fix, Severity, Span
from remat.lint.checkpointing import CHECKPOINTS, Checkpointing, Form, Variant, checkpointings
from remat.lint.code.callables import functions_run
from remat.lint.code.definitions import definitions
from remat.lint.code.syntax import parameters, walk
from remat.lint.edits import insert
from remat.lint.imports import import_edit, spelling
from remat.lint.rule import Bad, Context, Good, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remat.lint.code.source import Source
    from remat.lint.code.syntax import Function


def check(source: Source, context: Context) -> Iterator[Finding]:
    for use in checkpointings(source):
        forwarded = [a for a in use.forwarded if a in use.call.node.args]
        raises = use.sequential or use.variant in {Variant.OMITTED, Variant.REENTRANT}
        if not forwarded or not raises or not use.certain or source.once(_compiled):
            continue
        span = source.span(use.call.place, use.call.node.func)
        if span is None:
            continue
        fix = None if context.project.adapters_under_zero3 else _fix(source, use, forwarded)
        yield Finding(RULE.name, span, _message(use, forwarded), Severity.ERROR, fix)


def _compiled(source: Source) -> bool:
    """Whether something here is compiled: dynamo traces the non-reentrant variant, which takes keywords."""
    return "torch.compile" in source.words or ".compile(" in source.words


def _message(use: Checkpointing, forwarded: list[cst.Arg]) -> str:
    names = [f"`{a.keyword.value}`" for a in forwarded if a.keyword]
    plural = "s" if len(names) > 1 else ""
    what = f"keyword argument{plural} {', '.join(names)} given to "
    if use.sequential:
        return f"{what}`checkpoint_sequential`, which passes none on: ValueError at the first step"
    return (
        f"{what}reentrant `checkpoint`: `ValueError: Unexpected keyword arguments` at the first step with "
        "checkpointing on; only the non-reentrant variant passes keywords on"
    )


def _fix(source: Source, use: Checkpointing, forwarded: list[cst.Arg]) -> Fix | None:
    if use.sequential or use.form is not Form.CALL or use.wrapped is None or len(forwarded) != len(use.forwarded):
        return None
    target = _where_to_bind(source, use, {a.keyword.value for a in forwarded if a.keyword})
    at = source.span(use.call.place, target) if target else None
    texts = [source.span(use.call.place, a.value) for a in forwarded]
    if at is None or None in texts:
        return None
    partial = spelling(source, "functools", "partial")
    imported = () if partial else _import(source)
    bound = ", ".join(
        f"{a.keyword.value}={source.text[t.start : t.end]}"
        for a, t in zip(forwarded, texts, strict=True)
        if a.keyword and t
    )
    removed = _replace_keywords(source, use, forwarded)
    if imported is None or removed is None:
        return None
    edits = (
        *imported,
        insert(at.start, f"{partial or 'functools.partial'}("),
        insert(at.end, f", {bound})"),
        *removed,
    )
    return Fix("Bind the keyword with functools.partial and pass use_reentrant=False", edits)


def _import(source: Source) -> tuple[Edit, ...] | None:
    edit = import_edit(source, "functools")
    return (edit,) if edit else None


def _where_to_bind(source: Source, use: Checkpointing, names: set[str]) -> cst.CSTNode | None:
    """The expression to wrap in a partial: the callable itself, or the module that a factory is given."""
    wrapped, scope, place = (use.wrapped.value if use.wrapped else None), use.call.scope, use.call.place
    if wrapped is None:
        return None
    if isinstance(wrapped, cst.Call):
        if len(wrapped.args) != 1 or wrapped.args[0].star or wrapped.args[0].keyword:
            return None
        factories = definitions(source, wrapped.func, scope, place)
        module = wrapped.args[0].value
        if len(factories) != 1 or not _hands_on(factories[0].node):
            return None
        functions = functions_run(source, module, scope, place)
        return module if all(_takes(f.node, names) for f in functions) else None
    functions = functions_run(source, wrapped, scope, place)
    return wrapped if functions and all(_takes(f.node, names) for f in functions) else None


def _hands_on(factory: cst.CSTNode) -> bool:
    """Whether this is `def factory(module): def inner(*inputs): return module(*inputs, …)`."""
    if not isinstance(factory, cst.FunctionDef) or len(parameters(factory)) != 1:
        return False
    module = parameters(factory)[0].name.value
    inner = [n for n in walk(factory.body) if isinstance(n, cst.FunctionDef | cst.Lambda)]
    if len(inner) != 1 or not isinstance(inner[0].params.star_arg, cst.Param):
        return False
    star = inner[0].params.star_arg.name.value
    return any(
        isinstance(call, cst.Call)
        and isinstance(call.func, cst.Name)
        and call.func.value == module
        and any(a.star == "*" and isinstance(a.value, cst.Name) and a.value.value == star for a in call.args)
        for call in walk(inner[0].body)
    )


def _takes(function: Function, names: set[str]) -> bool:
    given = {p.name.value for p in parameters(function)}
    return names <= given or function.params.star_kwarg is not None


def _replace_keywords(source: Source, use: Checkpointing, forwarded: list[cst.Arg]) -> tuple[Edit, ...] | None:
    """Take the keywords out of the call and have it say `use_reentrant=False`, in the layout it has."""
    args = list(use.call.node.args)
    edits: list[Edit] = []
    said = use.said.value if use.said else None
    if said is not None:
        value = source.span(use.call.place, said)
        if value is None:
            return None
        edits.append(Edit(value, "False"))
    for arg in forwarded:
        span, before = source.span(use.call.place, arg), args.index(arg) - 1
        previous = source.span(use.call.place, args[before]) if before >= 0 else None
        if span is None or previous is None:
            return None
        if said is None and arg is forwarded[0]:
            edits.append(Edit(span, "use_reentrant=False"))
            continue
        if "#" in source.text[previous.end : span.start]:
            return None
        edits.append(Edit(Span(previous.end, span.end), ""))
    return tuple(edits)


EXAMPLES = (
    Bad(
        """
        from torch.utils.checkpoint import checkpoint

        def block(x, mask=None):
            return x if mask is None else x * mask

        y = «checkpoint»(block, x, mask=mask)
        """,
        fixed="""
        import functools
        from torch.utils.checkpoint import checkpoint

        def block(x, mask=None):
            return x if mask is None else x * mask

        y = checkpoint(functools.partial(block, mask=mask), x, use_reentrant=False)
        """,
        says=("`mask`", "ValueError"),
    ),
    Bad(
        """
        from functools import partial
        from torch import nn
        from torch.utils.checkpoint import checkpoint

        class Layer(nn.Module):
            def forward(self, x, mode=None, scale=1.0):
                return x * scale

        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = nn.ModuleList([Layer() for _ in range(4)])

            def forward(self, x, mode):
                def create_custom_forward(module):
                    def custom_forward(*inputs):
                        return module(*inputs)

                    return custom_forward

                for layer in self.layers:
                    x = «checkpoint»(
                        create_custom_forward(layer),
                        x,
                        mode=mode,
                        scale=2.0,
                    )
                return x
        """,
        fixed="""
        from functools import partial
        from torch import nn
        from torch.utils.checkpoint import checkpoint

        class Layer(nn.Module):
            def forward(self, x, mode=None, scale=1.0):
                return x * scale

        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = nn.ModuleList([Layer() for _ in range(4)])

            def forward(self, x, mode):
                def create_custom_forward(module):
                    def custom_forward(*inputs):
                        return module(*inputs)

                    return custom_forward

                for layer in self.layers:
                    x = checkpoint(
                        create_custom_forward(partial(layer, mode=mode, scale=2.0)),
                        x,
                        use_reentrant=False,
                    )
                return x
        """,
    ),
    Bad(
        """
        import functools
        from torch.utils.checkpoint import checkpoint
        y = «checkpoint»(lambda x, k: x + k, x, k=k, use_reentrant=True)
        """,
        fixed="""
        import functools
        from torch.utils.checkpoint import checkpoint
        y = checkpoint(functools.partial(lambda x, k: x + k, k=k), x, use_reentrant=False)
        """,
    ),
    Bad(
        """
        from torch.utils.checkpoint import checkpoint
        y = «checkpoint»(somewhere.block, x, mask=mask)
        """,
    ),
    Bad(
        """
        from torch.utils.checkpoint import checkpoint_sequential
        y = «checkpoint_sequential»(stages, 2, x, mask=mask, use_reentrant=False)
        """,
        says=("passes none on",),
    ),
    Good(
        """
        from torch.utils.checkpoint import checkpoint
        y = checkpoint(block, x, mask=mask, use_reentrant=False)
        z = checkpoint(block, x, preserve_rng_state=False, determinism_check="none", early_stop=False)
        """,
        because="the non-reentrant variant passes keywords on, and the others are checkpoint's own",
    ),
    Good(
        """
        import torch
        from torch.utils.checkpoint import checkpoint
        class M(torch.nn.Module):
            def forward(self, x, m):
                return checkpoint(f, x, mask=m, use_reentrant=True)
        model = torch.compile(M(), fullgraph=True)
        """,
        because="torch.compile traces the non-reentrant variant whatever the call says",
    ),
    Good(
        """
        from timm.models import checkpoint
        y = checkpoint(block, x, rope=rope)
        """,
        because="timm's checkpoint is non-reentrant by default",
    ),
)

RULE = Rule(
    __name__,
    __doc__,
    Severity.ERROR,
    check,
    words=("checkpoint",),
    targets=CHECKPOINTS,
    examples=EXAMPLES,
)
