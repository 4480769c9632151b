"""Did checkpointing take effect? What ran again, what kept its activations, and why nothing did."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import transformers
from small_models import labelled_tokens, llama
from torch import nn
from torch.utils.checkpoint import checkpoint

from remat.probe.built import Built, Inputs
from remat.probe.messages import Variant, VariantResult
from remat.probe.simulated.estimate import estimate

if TYPE_CHECKING:
    from collections.abc import Callable


class Block(nn.Module):
    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.inner = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.inner(self.norm(x))


class Other(Block):
    """A block of another class, which a wrapper by class misses."""


class Stack(nn.Module):
    """Blocks that are checkpointed where `chosen` says so."""

    def __init__(
        self, chosen: Callable[[int], bool], *, reentrant: bool = False, kinds: tuple[type, ...] = (Block,)
    ) -> None:
        super().__init__()
        self.embed = nn.Linear(64, 64)
        self.layers = nn.ModuleList(kinds[i % len(kinds)]() for i in range(6))
        self.chosen, self.reentrant = chosen, reentrant

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.embed(x)
        for i, layer in enumerate(self.layers):
            x = checkpoint(layer, x, use_reentrant=self.reentrant) if self.chosen(i) else layer(x)
        return x


def built(make: Callable[[], nn.Module], **more: object) -> Built:
    return Built(make, lambda *_: Inputs((torch.randn(256, 64),)), lambda out, _: out.sum(), **more)


def ask(target: Built, **settings: object) -> VariantResult:
    return estimate(target, Variant("v", **settings), "cpu")


ROW = 256 * 64 * 4
OF_A_BLOCK = (1 + 4 + 4 + 1) * ROW + 2 * 256 * 4
"""the normalised input, both sides of GELU, the sum; mean and deviation of the norm"""


def test_a_loop_that_checkpoints_every_block_is_seen_to() -> None:
    result = ask(built(lambda: Stack(lambda _: True)))
    assert result.active
    assert [(r.module, r.class_name, r.count) for r in result.checkpointed] == [("layers.*", "Block", 6)]
    assert [k.module for k in result.not_checkpointed] in ([], ["embed"])


def test_the_blocks_that_a_loop_leaves_out_are_named_with_their_bytes() -> None:
    result = ask(built(lambda: Stack(lambda i: i % 2 == 0)))
    assert [(r.module, r.count) for r in result.checkpointed] == [("layers.*", 3)]
    kept = result.not_checkpointed[0]
    assert (kept.module, kept.class_name, kept.count) == ("layers.*", "Block", 3)
    assert abs(kept.saved_bytes - 3 * OF_A_BLOCK) <= 3 * ROW


def test_blocks_of_a_class_that_the_wrapper_missed_are_told_apart() -> None:
    result = ask(built(lambda: Stack(lambda i: i % 2 == 0, kinds=(Block, Other))))
    assert [(r.class_name, r.count) for r in result.checkpointed] == [("Block", 3)]
    assert (result.not_checkpointed[0].class_name, result.not_checkpointed[0].count) == ("Other", 3)


def test_reentrant_checkpoints_of_inputs_without_gradient_are_explained() -> None:
    def make() -> nn.Module:
        model = Stack(lambda i: i == 0, reentrant=True)
        model.embed.requires_grad_(requires_grad=False)
        return model

    result = ask(built(make))
    assert not result.active
    assert "need no gradient" in (result.inactive_because or "")


def test_checkpoints_without_gradients_are_explained() -> None:
    class Frozen(Stack):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                x = super().forward(x)
            return self.embed(x)

    result = ask(built(lambda: Frozen(lambda _: True)))
    assert not result.active
    assert "no_grad" in (result.inactive_because or "")


def test_a_flag_that_nothing_reads_is_explained() -> None:
    class Deaf(Stack):
        def __init__(self) -> None:
            super().__init__(lambda _: False)
            self.gradient_checkpointing = True

    result = ask(built(Deaf))
    assert not result.active
    assert "Deaf" in (result.inactive_because or "")
    assert "never called" in (result.inactive_because or "")


def test_a_model_that_never_meant_to_checkpoint_needs_no_reason() -> None:
    result = ask(built(lambda: Stack(lambda _: False)))
    assert not result.active
    assert result.inactive_because is None


def hugging_face(*, training: bool | None) -> Built:
    def make() -> nn.Module:
        model = llama().make_model()
        model.gradient_checkpointing_enable()
        return model if training else model.eval()

    return Built(make, labelled_tokens, lambda out, _: out.loss, training=training)


def test_a_hugging_face_model_in_training_recomputes_its_layers() -> None:
    transformers.logging.set_verbosity_error()
    result = ask(hugging_face(training=True))
    assert [(r.class_name, r.count) for r in result.checkpointed] == [("LlamaDecoderLayer", 4)]


def test_a_hugging_face_model_in_eval_mode_says_so_and_what_its_layers_keep() -> None:
    result = ask(hugging_face(training=None))
    assert not result.active
    assert "eval mode" in (result.inactive_because or "")
    kept = result.not_checkpointed[0]
    assert (kept.module, kept.class_name, kept.count) == ("model.layers.*", "LlamaDecoderLayer", 4)
    assert kept.saved_bytes > 2**20


def test_a_variant_replaces_what_the_code_checkpoints() -> None:
    target = built(lambda: Stack(lambda i: i < 2))
    assert ask(target, checkpointing="none").checkpointed == ()
    assert ask(target, checkpointing="all").checkpointed[0].count == 6
    assert ask(target, checkpointing="every-3").checkpointed[0].count == 2
    assert ask(target, checkpointing="modules:layers.1, layers.4").checkpointed[0].count == 2


def test_recomputing_costs_what_runs_again() -> None:
    ratio = ask(built(lambda: Stack(lambda _: True))).recompute_flops_ratio
    whole = ask(built(lambda: Stack(lambda _: True, reentrant=True))).recompute_flops_ratio
    assert 1.1 < ratio.low < ratio.high < 1.34
    assert whole.low == whole.high == ratio.high
    assert ask(built(lambda: Stack(lambda _: False))).recompute_flops_ratio.high == 1.0
