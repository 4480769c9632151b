"""Layers that a checkpointed model leaves out keep all their activations: what that costs, and the cure."""

from __future__ import annotations

import pytest
import torch
from measure import equal, gradients, peak_bytes, saved_bytes
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    apply_activation_checkpointing,
)
from torch.utils.checkpoint import checkpoint

WIDTH, BATCH = 16, 64
ALL = range(8)
X = torch.randn(BATCH, WIDTH)
INPUT = X.nbytes  # what a checkpointed block keeps: its input
BLOCK = (
    INPUT + 4 * INPUT + 4 * INPUT
)  # what a plain one keeps: the inputs of its first layer, of GELU, of its last layer


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return self.down(nn.functional.gelu(self.up(x)))


class CrossBlock(Block):
    """Another type of block with the same appetite."""


class Model(nn.Module):
    """Eight blocks, those in `wraps` checkpointed, and a head over `classes`."""

    def __init__(self, wraps=(), classes=1):
        super().__init__()
        torch.manual_seed(0)
        self.wraps = wraps
        self.embed = nn.Linear(WIDTH, WIDTH)
        self.blocks = nn.ModuleList([Block() for _ in ALL])
        self.head = nn.Linear(WIDTH, classes)

    def forward(self, x):
        x = self.embed(x)
        for i, block in enumerate(self.blocks):
            x = checkpoint(block, x, use_reentrant=False) if i in self.wraps else block(x)
        return self.head(x).logsumexp(-1).sum()


def keeps(model):
    return saved_bytes(model, lambda: model(X))


def peak(model):
    return peak_bytes(model, lambda: model(X))


SKIPS = {
    "every second, i % 2": (range(0, 8, 2), 4),
    "the first, layers[1:]": (range(1, 8), 1),
    "the second half": (range(4), 4),
    "those below a threshold, i >= 5": (range(5, 8), 5),
    "all, by a flag that nobody reads": ((), 8),
}


@pytest.mark.parametrize(("wraps", "skipped"), SKIPS.values(), ids=SKIPS)
def test_each_skipped_layer_keeps_its_activations_until_backward(wraps, skipped):
    assert keeps(Model(wraps)) - keeps(Model(ALL)) == skipped * (BLOCK - INPUT)
    assert peak(Model(wraps)) > peak(Model(ALL))


@pytest.mark.parametrize(("wraps", "skipped"), SKIPS.values(), ids=SKIPS)
def test_wrapping_all_of_them_leaves_every_gradient_as_it_was(wraps, skipped):
    some, all_of_them = Model(wraps), Model(ALL)
    assert all(equal(gradients(some, lambda: some(X)), gradients(all_of_them, lambda: all_of_them(X))))


class Encoder(nn.Module):
    """Two stacks: the loop over the second was forgotten, as in models that grew one."""

    def __init__(self, *, both):
        super().__init__()
        torch.manual_seed(0)
        self.both = both
        self.down = nn.ModuleList([Block() for _ in range(4)])
        self.up = nn.ModuleList([Block() for _ in range(4)])

    def forward(self, x):
        for block in self.down:
            x = checkpoint(block, x, use_reentrant=False)
        for block in self.up:
            x = checkpoint(block, x, use_reentrant=False) if self.both else block(x)
        return x.sum()


def test_a_second_loop_that_was_forgotten_costs_what_its_layers_keep():
    one, both = Encoder(both=False), Encoder(both=True)
    assert keeps(one) - keeps(both) == 4 * (BLOCK - INPUT)
    assert all(equal(gradients(one, lambda: one(X)), gradients(both, lambda: both(X))))


def wrapped_from_outside(*types):
    torch.manual_seed(0)
    model = nn.Sequential(*(kind() for kind in (Block, CrossBlock) * 4))
    apply_activation_checkpointing(model, check_fn=lambda module: type(module) in types)
    return model


def test_a_check_fn_that_misses_a_type_of_block_leaves_those_blocks_plain():
    missed, found = wrapped_from_outside(Block), wrapped_from_outside(Block, CrossBlock)
    forward = lambda model: lambda: model(X).sum()  # noqa: E731
    assert saved_bytes(missed, forward(missed)) - saved_bytes(found, forward(found)) == 4 * (BLOCK - INPUT)
    assert all(equal(gradients(missed, forward(missed)), gradients(found, forward(found))))


def test_leaving_out_the_last_block_is_free_where_little_follows_it_so_the_rule_is_silent():
    but_the_last = Model(range(7))
    assert keeps(but_the_last) > keeps(Model(ALL))  # more is kept, but backward begins by recomputing that very block
    assert abs(peak(but_the_last) - peak(Model(ALL))) <= 2 * INPUT


def test_with_a_language_models_head_leaving_out_the_last_block_costs_that_block():
    head = 64 * WIDTH
    but_the_last = Model(range(7), classes=head)
    assert peak(but_the_last) - peak(Model(ALL, classes=head)) == BLOCK - INPUT


def test_wrapping_only_the_last_block_saves_nothing_at_the_peak_where_little_follows_it():
    assert abs(peak(Model([7])) - peak(Model())) <= 2 * INPUT


def test_checkpointing_all_blocks_by_the_wrapper_is_the_same_as_in_the_loop():
    inside, outside = Model(ALL), Model()
    apply_activation_checkpointing(outside, check_fn=lambda module: isinstance(module, Block))
    assert keeps(inside) == keeps(outside)
