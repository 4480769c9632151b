"""A lambda or nested function is checkpointed, and a name it captures is bound anew before backward runs.

## Why
A closure looks its names up when it runs, and a checkpointed one runs twice: in forward, and again in backward. By then
the loop around it has moved on, and every recompute sees the last layer, index, mask or tensor. Nothing raises:

- with `use_reentrant=False` each earlier turn gets wrong gradients (only the last turn's are right),
- with the reentrant variant the layers of the earlier turns get no gradient, and the last one a wrong one.

The same holds for a name that is assigned again further down, and for `x = checkpoint(lambda: block(x), …)`, whose
recompute reads the result instead of the input. It is an error, not a warning: such a program trains wrongly whatever
its data, and neither the loss of the first step nor any message shows it.

## What is not reported
Names bound when the closure is made (default arguments, `functools.partial`, the parameter of a factory); loops that
run backward, or hand the result to something that may, before the next turn; loops left right after the call; names
bound to the same thing again; names that only a log message, a shape or, without reentrancy, a last addition reads;
code under `no_grad`.

## Fix safety
The fix binds the name as a default argument, behind every parameter that checkpoint's own arguments can reach. It is
safe where the closure is written in the call, or is a local function that is only called or checkpointed before the
name is bound anew: forward computes the same as before. Where the closure lies in a list or is handed elsewhere, the
fix is offered for review. None is offered where the closure is made before the loop, or captures the name only through
another local function: there the value has to be passed as an argument.

## References
- https://docs.python.org/3/faq/programming.html#why-do-lambdas-defined-in-a-loop-with-different-values-all-return-the-same-result
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from remat.finding import Finding, Fix, Severity
from remat.lint.checkpointing import CHECKPOINTS, Variant, checkpointings
from remat.lint.closures.closures import closures
from remat.lint.closures.early_binding import bind_early
from remat.lint.closures.late_names import Late, late_names
from remat.lint.closures.rebinding import Cause
from remat.lint.rule import Bad, Context, Good, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from remat.lint.code.source import Source


def check(source: Source, context: Context) -> Iterator[Finding]:  # noqa: ARG001 - holds for every version
    uses = list(checkpointings(source))
    for use in uses:
        for closure in closures(source, use):
            late = late_names(source, use, closure)
            span = source.span(use.call.place, use.call.node.func) if late else None
            if span is not None:
                title = f"Bind {_names(late)} when the {closure.kind} is made"
                bound = bind_early(source, closure, late, uses)
                fix = Fix(title, *bound) if bound else None
                message = _message(source, closure.what, late, use.variant)
                yield Finding(RULE.name, span, message, Severity.ERROR, fix)
                break


def _names(late: Sequence[Late]) -> str:
    return " and ".join(f"`{'.'.join(name.path)}`" for name in late)


def _message(source: Source, what: str, late: Sequence[Late], variant: Variant) -> str:
    first = late[0]
    span = source.span(first.place, first.rebinding.node)
    line = source.text.count("\n", 0, span.start) + 1 if span else 0
    captures = f"{what} captures {_names(late)}"
    if first.rebinding.cause is Cause.OWN:
        return f"{captures}, which is then assigned the result: the recompute starts from that: wrong gradients"
    if first.rebinding.cause is Cause.LATER:
        return (
            f"{captures}, which line {line} binds anew before backward runs: the recompute sees the new value, so the "
            f"gradients are wrong, without an error"
        )
    anew = f"{captures}, which the loop in line {line} binds anew"
    if first.in_forward:
        return f"{anew}: every function in the list runs with the last value, in forward and in backward"
    if variant in (Variant.REENTRANT, Variant.OMITTED) and first.is_run:
        return (
            f"{anew} before backward runs: all turns recompute with the last one, so the earlier ones get no gradients "
            f"and the last gets wrong ones, without an error"
        )
    return f"{anew} before backward runs: all turns recompute with the last one: wrong gradients, without an error"


RULE = Rule(
    __name__,
    __doc__,
    Severity.ERROR,
    check,
    words=("checkpoint",),
    targets=CHECKPOINTS,
    examples=(
        Bad(
            """
            from torch.utils.checkpoint import checkpoint

            def forward(self, x):
                for layer in self.layers:
                    x = «checkpoint»(lambda h: layer(h), x, use_reentrant=False)
                return x
            """,
            fixed="""
            from torch.utils.checkpoint import checkpoint

            def forward(self, x):
                for layer in self.layers:
                    x = checkpoint(lambda h, layer=layer: layer(h), x, use_reentrant=False)
                return x
            """,
            safe=True,
            says=("`layer`", "line 4", "wrong gradients, without an error"),
        ),
        Bad(
            """
            import torch.utils.checkpoint as cp

            def forward(self, x, mask):
                for i in range(len(self.layers)):

                    def run(
                        hidden,
                        mask,  # broadcast over heads
                    ):
                        return self.layers[i](hidden, mask)

                    x = «cp.checkpoint»(run, x, mask, use_reentrant=True)
                return x
            """,
            fixed="""
            import torch.utils.checkpoint as cp

            def forward(self, x, mask):
                for i in range(len(self.layers)):

                    def run(
                        hidden,
                        mask,  # broadcast over heads
                        i=i,
                    ):
                        return self.layers[i](hidden, mask)

                    x = cp.checkpoint(run, x, mask, use_reentrant=True)
                return x
            """,
            safe=True,
            says=("`run` captures `i`", "get no gradients"),
        ),
        Bad(
            """
            from torch.utils.checkpoint import checkpoint

            class Stack(nn.Module):
                def forward(self, x):
                    for self.current in self.layers:
                        x = «checkpoint»(lambda *inputs: self.current(*inputs), x, use_reentrant=False)
                    return x
            """,
            fixed="""
            from torch.utils.checkpoint import checkpoint

            class Stack(nn.Module):
                def forward(self, x):
                    for self.current in self.layers:
                        x = checkpoint(lambda *inputs, current=self.current: current(*inputs), x, use_reentrant=False)
                    return x
            """,
            safe=True,
            says=("`self.current`",),
        ),
        Bad(
            """
            from torch.utils.checkpoint import checkpoint

            def forward(blocks, x):
                for block in blocks:
                    x = «checkpoint»(lambda block=block: block(x), use_reentrant=False)
                return x
            """,
            fixed="""
            from torch.utils.checkpoint import checkpoint

            def forward(blocks, x):
                for block in blocks:
                    x = checkpoint(lambda block=block, x=x: block(x), use_reentrant=False)
                return x
            """,
            safe=True,
            says=("`x`, which is then assigned the result",),
        ),
        Bad(
            """
            from torch.utils.checkpoint import checkpoint

            def forward(first, second, x, make_mask):
                mask = make_mask(1)
                x = «checkpoint»(lambda h: first(h, mask), x, use_reentrant=False)
                mask = make_mask(2)
                return second(x, mask)
            """,
            fixed="""
            from torch.utils.checkpoint import checkpoint

            def forward(first, second, x, make_mask):
                mask = make_mask(1)
                x = checkpoint(lambda h, mask=mask: first(h, mask), x, use_reentrant=False)
                mask = make_mask(2)
                return second(x, mask)
            """,
            safe=True,
            says=("line 6 binds anew",),
        ),
        Bad(
            """
            from functools import partial
            from torch.utils.checkpoint import checkpoint

            run = partial(checkpoint, use_reentrant=False)

            def loss(head, chunks, targets):
                total = 0
                for chunk, target in zip(chunks, targets):
                    total = total + «run»(lambda h: cross_entropy(head(h), target), chunk)
                return total
            """,
            fixed="""
            from functools import partial
            from torch.utils.checkpoint import checkpoint

            run = partial(checkpoint, use_reentrant=False)

            def loss(head, chunks, targets):
                total = 0
                for chunk, target in zip(chunks, targets):
                    total = total + run(lambda h, target=target: cross_entropy(head(h), target), chunk)
                return total
            """,
            safe=True,
        ),
        Bad(
            """
            from torch.utils.checkpoint import checkpoint_sequential

            def forward(xs, x):
                return «checkpoint_sequential»([lambda h: f(h) for f in xs], 2, x, use_reentrant=False)
            """,
            fixed="""
            from torch.utils.checkpoint import checkpoint_sequential

            def forward(xs, x):
                return checkpoint_sequential([lambda h, f=f: f(h) for f in xs], 2, x, use_reentrant=False)
            """,
            says=("in forward and in backward",),
        ),
        Bad(
            """
            from torch.utils.checkpoint import checkpoint

            def forward(layers, x):
                for layer in layers:
                    @«checkpoint»(use_reentrant=False)
                    def run(h):
                        return layer(h)
                    x = run(x)
                return x
            """,
            fixed="""
            from torch.utils.checkpoint import checkpoint

            def forward(layers, x):
                for layer in layers:
                    @checkpoint(use_reentrant=False)
                    def run(h, layer=layer):
                        return layer(h)
                    x = run(x)
                return x
            """,
            safe=True,
            versions="torch=2.14.1",
        ),
        Bad(
            """
            from torch.utils.checkpoint import checkpoint

            def forward(layers, x):
                def run(h):
                    return layer(h)

                for layer in layers:
                    x = «checkpoint»(run, x, use_reentrant=False)
                return x
            """,
            says=("`run` captures `layer`",),
        ),
        Good(
            """
            from torch.utils.checkpoint import checkpoint

            for batch in loader:
                checkpoint(lambda t: model(t) * batch.sum(), batch, use_reentrant=False).sum().backward()
            """,
            because="backward runs before the loop binds `batch` anew",
        ),
        Good(
            """
            from functools import partial
            from torch.utils.checkpoint import checkpoint

            def forward(layers, x):
                def over(layer):
                    return lambda h: layer(h)

                for layer in layers:
                    x = checkpoint(over(layer), x, use_reentrant=False)
                    x = checkpoint(partial(lambda layer, h: layer(h), layer), x, use_reentrant=False)
                    x = checkpoint(lambda h, layer=layer: layer(h), x, use_reentrant=False)
                    x = checkpoint(layer, x, use_reentrant=False)
                return x
            """,
            because="each binds the layer when the callable is made",
        ),
        Good(
            """
            from torch.utils.checkpoint import checkpoint

            def forward(self, hidden_states, past_key_values, use_cache):
                for i, (layer, past_key_value) in enumerate(zip(self.layers, past_key_values)):

                    def create_custom_forward(module):
                        def custom_forward(*inputs):
                            return module(*inputs, past_key_value, use_cache)

                        return custom_forward

                    hidden_states = checkpoint(create_custom_forward(layer), hidden_states)
                return hidden_states
            """,
            because="the layer is the factory's argument, and `past_key_value` is None in training",
        ),
        Good(
            """
            from torch.utils.checkpoint import checkpoint

            def forward(layers, x):
                for i, layer in enumerate(layers):

                    def run(h, layer=layer):
                        logger.debug("layer %d, batch %s", i, x.shape)
                        return layer(h)

                    x = checkpoint(run, x, use_reentrant=False)
                return x
            """,
            because="what only a log message reads has no part in the gradients",
        ),
        Good(
            """
            from torch.utils.checkpoint import checkpoint

            def forward(layers, x):
                for layer in layers:
                    x = checkpoint(lambda h, layer=layer: layer(h) + x, x, use_reentrant=False)
                return x
            """,
            because="an addition saves nothing for backward: the recompute needs no `x`",
        ),
        Good(
            """
            from torch.utils.checkpoint import checkpoint

            def first_that_fits(layers, x):
                for layer in layers:
                    if layer.in_features == x.shape[-1]:
                        x = checkpoint(lambda h: layer(h), x, use_reentrant=False)
                        break
                return x
            """,
            because="the loop ends with the call: `layer` stays what it was",
        ),
    ),
)
