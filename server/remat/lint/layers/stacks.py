"""Stacks of blocks that a class runs in loops: what they hold, and which of them nothing checkpoints."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from remat.lint.code.gradients import function_may_switch_off
from remat.lint.code.modules import elements
from remat.lint.code.syntax import dotted, walk
from remat.lint.layers.classes import ABOUT_CHECKPOINTING, ancestry, may_checkpoint
from remat.lint.layers.loops import layer_loops
from remat.lint.layers.training_paths import runs_in_training

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from remat.lint.code.source import Source
    from remat.lint.layers.classes import Klass
    from remat.lint.layers.loops import LayerLoop
    from remat.lint.layers.sites import Sites

SELF_CHECKPOINTING = "GradientCheckpointingLayer"  # transformers >= 4.53: such a layer checkpoints its own call
_ATTENTION = re.compile(r"(?i)attention|attn|mamba|mixer|ssm\b|retention|rwkv|hyena")
_CONVOLUTION = re.compile(r"\bConv[123]d\(")
_LINEAR = re.compile(r"\bLinear\(")
_LIGHT = re.compile(
    r"(?i)(?:up|down)_?sampl|embed|proj|head|pool|norm|adapter|predict|classif|gate|connector|fpn|neck|final"
)
_LIGHT_OF_TORCH = re.compile(r"(?:Linear|Conv\d?d?|Norm\d?d?|Embedding|Dropout\d?d?|ReLU|GELU|SiLU|Identity|Pool\dd)$")
_OF_TORCH = ("nn.TransformerEncoderLayer", "nn.TransformerDecoderLayer")
_NOT_TRAINED = re.compile(
    r"(?i)generat|sample|infer|predict|evaluat|decode_?(?:step|one)|encode_(?:text|image)|intermediate|extract|visuali|export|trace"
)


@dataclass(frozen=True)
class Stack:
    """A loop over a list in a class of the file, and what the list holds: found out when somebody asks."""

    source: Source
    loop: LayerLoop
    owner: Klass
    known: Mapping[str, Klass]

    @property
    def layers(self) -> str:
        return self.loop.layers

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The classes of what the list holds, as written; empty where that is not seen."""
        loop = self.loop
        made = elements(self.source, loop.container, loop.scope, loop.place)
        return tuple(sorted({".".join(dotted(m.node.func)) for m in made}))

    @cached_property
    def held(self) -> tuple[Klass, ...]:
        """Those of them that are in the file."""
        return tuple(self.known[n] for n in self.names if n in self.known)

    @cached_property
    def checkpointed(self) -> bool:
        """Whether the loop hands its layers to checkpoint, or each checkpoints its own call as transformers' do."""
        if self.loop.checkpointed or not self.loop.plain or SELF_CHECKPOINTING not in self.source.words:
            return bool(self.loop.checkpointed)
        return bool(self.held) and all(
            any(b.endswith(SELF_CHECKPOINTING) for a in ancestry(k, self.known) for b in a.bases) for k in self.held
        )

    @cached_property
    def runs_plainly(self) -> bool:
        """Whether the loop only calls its layers, in training, and its name does not say that they are light."""
        loop = self.loop
        if not loop.plain or loop.checkpointed or loop.unclear or not loop.layers.startswith("self."):
            return False
        return not _LIGHT.search(self.layers.rpartition(".")[2]) and _trained(loop)

    @cached_property
    def bare(self) -> bool:
        """Whether it runs plainly, no layer could checkpoint by itself or is a stage with layers of its own.

        Nor may a class that has the owner as a part checkpoint: it could checkpoint the owner as a whole.
        """
        if not self.runs_plainly or not self.names or any("ModuleList(" in k.text for k in self.held):
            return False
        whole = any(k.checkpoints_something for k in self.known.values() if self.owner.name in k.made)
        return not whole and not any(may_checkpoint(k, self.known) for k in self.held)


def stacks(source: Source, owner: Klass, known: Mapping[str, Klass], sites: Sites) -> list[Stack]:
    """Every layer loop in the methods of a class. Methods without a `for` are not parsed for it."""
    return [
        Stack(source, loop, owner, known)
        for part in owner.parts
        if "for " in source.text[part.piece.start : part.piece.end]
        for place in source.places_of(part)
        for loop in layer_loops(source, place, sites)
    ]


def _trained(loop: LayerLoop) -> bool:
    """Whether the loop runs in a method, with gradients, whatever flags about checkpointing or training say."""
    function = loop.function
    if function is None or _NOT_TRAINED.search(function.name.value):
        return False
    if function_may_switch_off(function) or not runs_in_training(loop.place, loop.loop, function):
        return False
    around = list(loop.place.parsed.ancestors(function))
    return not any(isinstance(a, cst.FunctionDef | cst.Lambda) for a in around)


def kind(klass: Klass) -> str:
    """What makes a block heavy: attention, convolutions or a feed-forward network; "" for what is light."""
    if _LIGHT.search(klass.name):
        return ""
    if _ATTENTION.search(klass.text):
        return "attention"
    if len(_CONVOLUTION.findall(klass.text)) > 1:
        return "convolution"
    return "linear" if len(_LINEAR.findall(klass.text)) > 1 else ""


def comparable(plain: Stack, beside: Stack) -> bool:
    """Whether the plain stack's blocks cost as much as those that were worth checkpointing."""
    if any(_LIGHT.search(n) or _LIGHT_OF_TORCH.search(n) for n in plain.names):
        return False
    if set(plain.names) <= set(beside.names):
        return True
    kinds = set(_kinds(beside)) - {""}
    return set(_kinds(plain)) <= kinds


def _kinds(stack: Stack) -> list[str]:
    return [
        "attention" if name.endswith(_OF_TORCH) else kind(stack.known[name]) if name in stack.known else ""
        for name in stack.names
    ]


def exclusive(plain: LayerLoop, beside: LayerLoop) -> bool:
    """Whether no call of the method runs both loops: they stand in two branches, or the first one ends in `return`.

    Two lists run by one loop (an attention beside each block) are no two loops either.
    """
    if plain.loop is beside.loop:
        return True
    if plain.function is not beside.function or plain.place is not beside.place:
        return False
    parents = [plain.loop, *plain.place.parsed.ancestors(plain.loop)]
    below: cst.CSTNode = beside.loop
    for above in beside.place.parsed.ancestors(beside.loop):
        if isinstance(above, cst.If) and below is not above.test:
            if above in parents:
                return parents[parents.index(above) - 1] is not below
            if isinstance(below, cst.BaseSuite) and _returns(below):
                return True
        below = above
    return False


def _returns(suite: cst.BaseSuite) -> bool:
    last = suite.body[-1] if suite.body else None
    return isinstance(last, cst.SimpleStatementLine) and isinstance(last.body[-1], cst.Return | cst.Raise)


def handed_over(layers: str, loops: Iterable[Stack], source: Source, owner: Klass, sites: Sites) -> bool:
    """Whether anything in the class may checkpoint this list or the method that runs it."""
    for stack in loops:
        if stack.layers == layers and (stack.loop.checkpointed or stack.loop.unclear):
            return True
    attribute = layers.removeprefix("self.")
    for place in owner.places(source):
        for node, _ in place.parsed.nodes.get(cst.Call, ()):
            if isinstance(node, cst.Call) and (sites(node) or ABOUT_CHECKPOINTING.search(".".join(dotted(node.func)))):
                named = (".".join(dotted(n)) for a in node.args for n in walk(a) if isinstance(n, cst.Attribute))
                if any(n == f"self.{attribute}" or n.startswith(f"self.{attribute}.") for n in named):
                    return True
    return False
