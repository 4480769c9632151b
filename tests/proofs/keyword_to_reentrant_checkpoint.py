"""Reentrant checkpoints take no keywords for the function: the first step fails. Three ways round it are right."""

# ruff: noqa: E731
from __future__ import annotations

from functools import partial

import pytest
import torch
from measure import close, equal, gradients, warned
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

X = torch.randn(2, 4, 8)
MASK = torch.tensor([0.0, 0.0, 0.0, 1.0]).view(1, 4, 1)
CRASH = "Unexpected keyword arguments: mask"
quiet = pytest.mark.filterwarnings("ignore:torch.utils.checkpoint")


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(8, 32), nn.Linear(32, 8)

    def forward(self, x, mask=None):
        y = self.down(self.up(x).relu())
        return x + (y if mask is None else y.masked_fill(mask.bool(), 0.0))


BLOCKS = nn.ModuleList([Block() for _ in range(3)])


def through(call, x):
    for block in BLOCKS:
        x = call(block, x)
    return x.square().mean()


def loss(call):
    """From an input that asks for a gradient, as a trainable embedding's output does."""
    return lambda: through(call, X.clone().requires_grad_())


KEPT = gradients(BLOCKS, loss(lambda block, x: block(x, mask=MASK)))


@quiet
@pytest.mark.parametrize("how", [{}, {"use_reentrant": None}, {"use_reentrant": True}])
def test_a_forwarded_keyword_fails_at_the_first_step(how):
    with pytest.raises(ValueError, match=CRASH):
        loss(lambda block, x: checkpoint(block, x, mask=MASK, **how))()


@quiet
def test_none_is_a_keyword_too():
    with pytest.raises(ValueError, match=CRASH):
        checkpoint(BLOCKS[0], X, mask=None)


@quiet
def test_every_keyword_is_named_and_checkpoint_sequential_takes_none_either():
    with pytest.raises(ValueError, match="Unexpected keyword arguments: mask,scale"):
        checkpoint(BLOCKS[0], X, mask=MASK, scale=2)
    with pytest.raises(ValueError, match=CRASH):
        checkpoint_sequential(nn.Sequential(*BLOCKS), 2, X, mask=MASK)


def test_checkpoint_sequential_takes_no_keyword_without_reentrancy_either():
    with pytest.raises(ValueError, match=CRASH):
        checkpoint_sequential(nn.Sequential(*BLOCKS), 2, X, use_reentrant=False, mask=MASK)


def create_custom_forward(module, **bound):
    """The factory of many model files, with what is to be forwarded bound where it is called."""

    def custom_forward(*inputs):
        return module(*inputs, **bound)

    return custom_forward


CURES = {
    "use_reentrant=False": lambda block, x: checkpoint(block, x, mask=MASK, use_reentrant=False),
    "a partial, reentrant": lambda block, x: checkpoint(partial(block, mask=MASK), x, use_reentrant=True),
    "a partial, not reentrant": lambda block, x: checkpoint(partial(block, mask=MASK), x, use_reentrant=False),
    "the factory's argument": lambda block, x: checkpoint(
        create_custom_forward(partial(block, mask=MASK)), x, use_reentrant=True
    ),
    "the factory's own keyword": lambda block, x: checkpoint(
        create_custom_forward(block, mask=MASK), x, use_reentrant=True
    ),
    "by position": lambda block, x: checkpoint(block, x, MASK, use_reentrant=True),
}


@pytest.mark.parametrize("call", CURES.values(), ids=CURES)
def test_each_cure_gives_the_gradients_of_no_checkpoint(call):
    assert all(equal(gradients(BLOCKS, loss(call)), KEPT))


def test_a_factory_that_forwards_inputs_only_refuses_the_keyword_without_reentrancy_too():
    with pytest.raises(TypeError, match="unexpected keyword argument 'mask'"):
        checkpoint(create_custom_forward(BLOCKS[0]), X, mask=MASK, use_reentrant=False)


@quiet
@pytest.mark.parametrize("own", [{"preserve_rng_state": False}, {"determinism_check": "none"}, {"early_stop": False}])
def test_the_keywords_of_checkpoint_itself_are_taken(own):
    kept = gradients(BLOCKS, loss(lambda block, x: block(x)))
    assert all(equal(gradients(BLOCKS, loss(lambda block, x: checkpoint(block, x, **own))), kept))


@quiet
@pytest.mark.parametrize("own", [{"debug": True}, {"context_fn": partial(lambda: (None, None))}])
def test_two_of_its_own_need_use_reentrant_false(own):
    with pytest.raises(ValueError, match="`context_fn` or `debug` is only supported when use_reentrant=False"):
        checkpoint(BLOCKS[0], X, **own)


def test_a_compiled_step_takes_the_keyword_because_dynamo_is_never_reentrant():
    call = lambda block, x: checkpoint(block, x, mask=MASK, use_reentrant=True)
    compiled = torch.compile(partial(through, call), fullgraph=True, backend="aot_eager")
    assert close(gradients(BLOCKS, lambda: compiled(X.clone().requires_grad_())), KEPT)


def test_the_cure_by_partial_keeps_the_warning_of_the_omitted_argument_and_only_that():
    partially = lambda: checkpoint(partial(BLOCKS[0], mask=MASK), X.clone().requires_grad_())
    assert warned(partially).count("\n") == 0
    assert "use_reentrant parameter should be passed explicitly" in warned(partially)
