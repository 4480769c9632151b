"""Layers that run without checkpointing although layers beside them, or a flag, say that they should not.

## Why
Checkpointing saves memory layer by layer: whatever it leaves out keeps all of its activations until backward. A stack
of blocks that was forgotten, every second layer, or a flag that is stored and never read often costs most of what the
feature was switched on for, and nothing warns: the model trains, only the memory is not there.

Reported are

- a loop over blocks that runs plainly beside one of the same kind that is checkpointed, in one class or in two parts
  of one model;
- positions that the code picks itself: `i % 2 == 0`, `i < len(self.layers) // 2`, `self.layers[1:]`;
- a `check_fn` of `apply_activation_checkpointing` that names some of the model's block types and not the others;
- a flag such as `self.gradient_checkpointing` that nothing reads.

## What is not reported
Branches that exclude each other, loops without gradients, down- and upsamplers, projections and other light modules,
loops over chunks, layers that checkpoint inside, and every policy that is configured (`every_n_layers`, a ratio, a
threshold from an argument). Nor `layers[:-1]`: what the last layer would free, backward needs at once. One layer left
out is information only.

## Fix safety
The fix puts the plain call into the form in which the file checkpoints the layers beside it, removes the condition, or
names the missing class in `check_fn`. It is never safe: it trades time for memory, and a layer that draws random
numbers outside of torch, or changes its own state, must not run twice. No fix is offered where the form hangs on local
values, where keywords would go to the reentrant variant, and for unread flags.

## References
- https://docs.pytorch.org/docs/stable/checkpoint.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from remat.finding import Edit, Finding, Fix, Severity, Span
from remat.lint.checkpointing import APPLY, CHECKPOINTS
from remat.lint.edits import replace
from remat.lint.layers.beside import skipped_beside
from remat.lint.layers.check_functions import Missed, missed
from remat.lint.layers.classes import classes
from remat.lint.layers.loops import layer_loops
from remat.lint.layers.picked_layers import Picked, picked_layers
from remat.lint.layers.sites import INSTALLERS, LIBRARY_METHOD, Sites, sites
from remat.lint.layers.stacks import SELF_CHECKPOINTING, Stack
from remat.lint.layers.unread_flags import any_stored, unread
from remat.lint.layers.wrap_call import without_conjunct, wrapped_like
from remat.lint.rule import Bad, Context, Good, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from remat.lint.code.source import Source
    from remat.lint.layers.classes import Klass
    from remat.lint.layers.loops import LayerLoop


def check(source: Source, _: Context) -> Iterator[Finding]:
    found = sites(source)
    yield from _picked(source, found)
    if not source.complete:
        return  # what is not there may stand in what does not parse
    uses = bool(found.torch) or LIBRARY_METHOD in source.words or SELF_CHECKPOINTING in source.words
    applies = any(True for _ in source.calls(APPLY))
    known = classes(source)
    flags = any_stored(known)
    loops = set[int]()
    for stack, flag in unread(source, known, found) if flags else ():
        loops.add(id(stack.loop.loop))
        yield from _finding(source, stack.loop, _unread(stack, flag), Severity.WARNING, None)
    for plain, beside in skipped_beside(source, known, found) if uses else ():
        if id(plain.loop.loop) not in loops:
            loops.add(id(plain.loop.loop))
            yield from _bare(source, plain, beside, found)
    yield from _missed(source, known) if applies else ()


def _picked(source: Source, found: Sites) -> Iterator[Finding]:
    for place in source.places:
        if found.in_text(source.text[place.piece.start : place.piece.end]) or id(place) in found.places:
            for picked in picked_layers(layer_loops(source, place, found), found):
                edits = _all_of_them(source, picked, found)
                fix = Fix(f"Checkpoint every layer of `{picked.loop.layers}`", edits) if edits else None
                severity = Severity.INFO if picked.one else Severity.WARNING
                yield from _finding(source, picked.loop, _about(source, picked), severity, fix)


def _bare(source: Source, plain: Stack, beside: Stack, found: Sites) -> Iterator[Finding]:
    edits: tuple[Edit, ...] = ()
    if plain.owner is beside.owner:
        edits = wrapped_like(source, plain.loop, beside.loop, found)
        message = (
            f"`{plain.layers}` run without checkpointing beside `{beside.layers}`, which are checkpointed: all "
            f"activations of `{plain.layers}` are kept for backward"
        )
    else:
        message = (
            f"`{plain.layers}` of `{plain.owner.name}` run without checkpointing beside those of "
            f"`{beside.owner.name}`, which are checkpointed: all activations of the `{plain.names[0]}`s are kept for "
            f"backward"
        )
    fix = Fix(f"Checkpoint `{plain.layers}` like `{beside.layers}`", edits) if edits else None
    yield from _finding(source, plain.loop, message, Severity.WARNING, fix)


def _unread(stack: Stack, flag: str) -> str:
    return (
        f"nothing reads `self.{flag}`: `{stack.layers}` are never checkpointed, and all their activations are kept for "
        f"backward whatever the flag says"
    )


def _about(source: Source, picked: Picked) -> str:
    layers = picked.loop.layers
    span = source.span(picked.loop.place, picked.by)
    by = " ".join(source.text[span.start : span.end].split()) if span else "this"
    if picked.only_last:
        return (
            f"`{by}` lets only the last of `{layers}` be checkpointed, which frees nothing: backward needs its "
            f"activations at once, and all those of the others are kept"
        )
    if picked.one:
        return f"`{by}` leaves one of `{layers}` without checkpointing: all its activations are kept for backward"
    if picked.beside is not None:
        return (
            f"`{by}` run without checkpointing while the other `{layers}` are checkpointed: all their activations are "
            f"kept for backward"
        )
    return f"`{by}` lets only some of `{layers}` be checkpointed: all activations of the others are kept for backward"


def _all_of_them(source: Source, picked: Picked, found: Sites) -> tuple[Edit, ...]:
    if picked.beside is not None:
        return wrapped_like(source, picked.loop, picked.beside, found)
    return without_conjunct(source, picked.loop.place, picked.by) if picked.removable else ()


def _finding(source: Source, loop: LayerLoop, message: str, severity: Severity, fix: Fix | None) -> Iterator[Finding]:
    """A finding on the line of the `for`."""
    start, end = source.span(loop.place, loop.loop), source.span(loop.place, loop.loop.iter)
    if start is not None and end is not None:
        yield Finding(RULE.name, Span(start.start, end.end), message, severity, fix)


def _missed(source: Source, known: Mapping[str, Klass]) -> Iterator[Finding]:
    for miss in missed(source, known):
        span = source.span(miss.call.place, miss.call.node.func)
        if span is not None:
            kept = " and ".join(f"`{name}`" for name in miss.missed)
            named = " and ".join(f"`{name}`" for name in miss.named)
            message = (
                f"`check_fn` matches {named} but not {kept}, which the model runs as well: all activations of those "
                f"blocks are kept for backward"
            )
            yield Finding(RULE.name, span, message, Severity.WARNING, _name_them(source, miss))


def _name_them(source: Source, miss: Missed) -> Fix | None:
    classes_named = ", ".join((*miss.named, *miss.missed))
    tested = miss.tested
    span = source.span(tested.place, tested.node)
    if span is None:
        return None
    alone = not isinstance(tested.node, cst.Tuple)
    edits = replace(source, tested.place, tested.node, f"({classes_named})" if alone else classes_named)
    return Fix(f"Checkpoint {', '.join(f'`{n}`' for n in miss.missed)} as well", edits) if edits else None


EXAMPLES = (
    Bad(
        """
        from torch import nn
        from torch.utils.checkpoint import checkpoint

        class Autoencoder(nn.Module):
            def __init__(self, n, use_checkpoint=False):
                super().__init__()
                self.use_checkpoint = use_checkpoint
                self.encoder = nn.ModuleList([Block() for _ in range(n)])
                self.decoder = nn.ModuleList([Block() for _ in range(n)])

            def forward(self, x, mask):
                for block in self.encoder:
                    if self.use_checkpoint and self.training:
                        x = checkpoint(block, x, mask, use_reentrant=False)
                    else:
                        x = block(x, mask)
                «for block in self.decoder»:
                    x = block(x, mask)
                return x
        """,
        fixed="""
        from torch import nn
        from torch.utils.checkpoint import checkpoint

        class Autoencoder(nn.Module):
            def __init__(self, n, use_checkpoint=False):
                super().__init__()
                self.use_checkpoint = use_checkpoint
                self.encoder = nn.ModuleList([Block() for _ in range(n)])
                self.decoder = nn.ModuleList([Block() for _ in range(n)])

            def forward(self, x, mask):
                for block in self.encoder:
                    if self.use_checkpoint and self.training:
                        x = checkpoint(block, x, mask, use_reentrant=False)
                    else:
                        x = block(x, mask)
                for block in self.decoder:
                    if self.use_checkpoint and self.training:
                        x = checkpoint(block, x, mask, use_reentrant=False)
                    else:
                        x = block(x, mask)
                return x
        """,
        says=("beside `self.encoder`", "all activations of `self.decoder` are kept"),
    ),
    Bad(
        """
        from torch import nn
        from torch.utils.checkpoint import checkpoint

        class Encoder(nn.Module):
            def forward(self, x):
                «for i, layer in enumerate(self.layers)»:
                    if self.use_checkpoint and i % 2 == 0:
                        x = checkpoint(layer, x, use_reentrant=False)
                    else:
                        x = layer(x)
                return x
        """,
        fixed="""
        from torch import nn
        from torch.utils.checkpoint import checkpoint

        class Encoder(nn.Module):
            def forward(self, x):
                for i, layer in enumerate(self.layers):
                    if self.use_checkpoint:
                        x = checkpoint(layer, x, use_reentrant=False)
                    else:
                        x = layer(x)
                return x
        """,
        says=("`i % 2 == 0`", "all activations of the others are kept"),
    ),
    Bad(
        """
        from torch import nn
        from torch.utils.checkpoint import checkpoint

        class Encoder(nn.Module):
            def forward(self, x):
                half = len(self.layers) // 2
                for layer in self.layers[:half]:
                    x = checkpoint(layer, x, use_reentrant=False)
                «for layer in self.layers[half:]»:
                    x = layer(x)
                return x
        """,
        fixed="""
        from torch import nn
        from torch.utils.checkpoint import checkpoint

        class Encoder(nn.Module):
            def forward(self, x):
                half = len(self.layers) // 2
                for layer in self.layers[:half]:
                    x = checkpoint(layer, x, use_reentrant=False)
                for layer in self.layers[half:]:
                    x = checkpoint(layer, x, use_reentrant=False)
                return x
        """,
        says=("`self.layers[half:]`",),
    ),
    Bad(
        """
        from torch import nn
        from torch.utils.checkpoint import checkpoint

        class Encoder(nn.Module):
            def forward(self, x):
                x = self.layers[0](x)
                «for layer in self.layers[1:]»:
                    x = checkpoint(layer, x, use_reentrant=False)
                return x
        """,
        severity=Severity.INFO,
        says=("leaves one of `self.layers`",),
    ),
    Bad(
        """
        from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
        from torch.distributed.fsdp import fully_shard

        for i, layer in enumerate(model.layers):
            model.layers[i] = checkpoint_wrapper(layer)  # every layer
        «for layer in model.decoder.layers[::2]»:
            fully_shard(checkpoint_wrapper(layer))
        """,
        says=("only some of `model.decoder.layers`",),
    ),
    Bad(
        """
        from torch import nn

        class Layer(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.attention = nn.MultiheadAttention(width, 8)

            def forward(self, x):
                return x + self.attention(x, x, x)[0]

        class Encoder(nn.Module):
            def __init__(self, width, depth, use_checkpoint=False):
                super().__init__()
                self.use_checkpoint = use_checkpoint
                self.layers = nn.ModuleList([Layer(width) for _ in range(depth)])

            def forward(self, x):
                «for layer in self.layers»:
                    x = layer(x)
                return x
        """,
        says=("nothing reads `self.use_checkpoint`", "all their activations are kept"),
    ),
    Bad(
        """
        from torch import nn
        from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing

        class EncoderBlock(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.attention = nn.MultiheadAttention(width, 8)

        class DecoderBlock(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.attention = nn.MultiheadAttention(width, 8)
                self.cross_attention = nn.MultiheadAttention(width, 8)

        class Translator(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.encoder = nn.ModuleList([EncoderBlock(width) for _ in range(6)])
                self.decoder = nn.ModuleList([DecoderBlock(width) for _ in range(6)])

        model = Translator(512)
        «apply_activation_checkpointing»(model, check_fn=lambda m: isinstance(m, EncoderBlock))
        """,
        fixed="""
        from torch import nn
        from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing

        class EncoderBlock(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.attention = nn.MultiheadAttention(width, 8)

        class DecoderBlock(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.attention = nn.MultiheadAttention(width, 8)
                self.cross_attention = nn.MultiheadAttention(width, 8)

        class Translator(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.encoder = nn.ModuleList([EncoderBlock(width) for _ in range(6)])
                self.decoder = nn.ModuleList([DecoderBlock(width) for _ in range(6)])

        model = Translator(512)
        apply_activation_checkpointing(model, check_fn=lambda m: isinstance(m, (EncoderBlock, DecoderBlock)))
        """,
        says=("`DecoderBlock`",),
    ),
    Good(
        """
        from torch import nn
        from torch.utils.checkpoint import checkpoint

        class Encoder(nn.Module):
            def forward(self, x):
                if self.use_checkpoint:
                    for layer in self.layers:
                        x = checkpoint(layer, x, use_reentrant=False)
                else:
                    for layer in self.layers:
                        x = layer(x)
                return x
        """,
        because="the plain loop is the other branch of the flag",
    ),
    Good(
        """
        from torch import nn
        from torch.utils.checkpoint import checkpoint

        class Encoder(nn.Module):
            def forward(self, x):
                for layer in self.layers[:-1]:
                    x = checkpoint(layer, x, use_reentrant=False)
                return self.layers[-1](x)
        """,
        because="what the last layer would free, backward needs at once",
    ),
    Good(
        """
        from torch import nn
        from torch.utils.checkpoint import checkpoint

        class Encoder(nn.Module):
            def forward(self, x):
                for i, layer in enumerate(self.layers):
                    if i % self.every_n_layers == 0:
                        x = checkpoint(layer, x, use_reentrant=False)
                    else:
                        x = layer(x)
                return x
        """,
        because="the policy is configured",
    ),
    Good(
        """
        from torch import nn
        from torch.utils.checkpoint import checkpoint

        class UpBlock(nn.Module):
            def __init__(self):
                super().__init__()
                self.resnets = nn.ModuleList([ResnetBlock() for _ in range(3)])
                self.upsamplers = nn.ModuleList([Upsample()])

            def forward(self, x):
                for resnet in self.resnets:
                    x = checkpoint(resnet, x, use_reentrant=False)
                for upsampler in self.upsamplers:
                    x = upsampler(x)
                return x
        """,
        because="an upsampler keeps little",
    ),
    Good(
        """
        from torch import nn
        from torch.utils.checkpoint import checkpoint

        class Stage(nn.Module):
            def __init__(self, depth):
                super().__init__()
                self.blocks = nn.ModuleList([Block() for _ in range(depth)])

            def forward(self, x):
                for block in self.blocks:
                    x = checkpoint(block, x, use_reentrant=False)
                return x

        class Backbone(nn.Module):
            def __init__(self, depths):
                super().__init__()
                self.stem = nn.ModuleList([Block() for _ in range(2)])
                self.stages = nn.ModuleList([Stage(depth) for depth in depths])

            def forward(self, x):
                for block in self.stem:
                    x = checkpoint(block, x, use_reentrant=False)
                for stage in self.stages:
                    x = stage(x)
                return x
        """,
        because="each stage checkpoints its blocks itself",
    ),
    Good(
        """
        from torch import nn
        from torch.utils.checkpoint import checkpoint

        class Loss(nn.Module):
            def forward(self, tokens):
                total = 0
                for chunk in tokens.split(1024):
                    total = total + checkpoint(self.head, chunk, use_reentrant=False)
                for i, chunk in enumerate(tokens[1:]):
                    total = total + self.metric(chunk)
                return total
        """,
        because="the loops run over chunks of a tensor",
    ),
)

RULE = Rule(
    __name__,
    __doc__,
    Severity.WARNING,
    check,
    words=("checkpoint", "ckpt", "with_cp"),
    targets=(*CHECKPOINTS, *INSTALLERS, APPLY),
    examples=EXAMPLES,
)
