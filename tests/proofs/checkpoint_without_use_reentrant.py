"""Where use_reentrant is left out torch warns, and takes the reentrant implementation with all that it forbids."""

# ruff: noqa: E731
from __future__ import annotations

import inspect
from functools import partial

import pytest
import torch
from measure import equal, gradients, saved_bytes, warned
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

BLOCK = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 8))
MODEL = nn.ModuleList([BLOCK, nn.Linear(8, 1)])  # a checkpointed block and a head
BATCH = torch.randn(4, 8)  # from a data loader: it asks for no gradient
TEXT = "the use_reentrant parameter should be passed explicitly"


def loss(run):
    return lambda: MODEL[1](run(BATCH)).sum()


KEPT = gradients(MODEL, loss(BLOCK))

LEFT_OUT = {
    "checkpoint": lambda x: checkpoint(BLOCK, x),
    "None, which is the same": lambda x: checkpoint(BLOCK, x, use_reentrant=None),
    "checkpoint_sequential": lambda x: checkpoint_sequential(BLOCK, 2, x),
    "a partial of checkpoint": partial(checkpoint, BLOCK),
    "another keyword": lambda x: checkpoint(BLOCK, x, preserve_rng_state=False),
}
left_out = pytest.mark.parametrize("run", LEFT_OUT.values(), ids=LEFT_OUT)


@left_out
def test_leaving_it_out_warns_and_does_not_raise_whatever_the_warning_announces(run):
    assert TEXT in warned(lambda: run(BATCH))


@left_out
@pytest.mark.filterwarnings("ignore")
def test_a_block_that_is_fed_a_batch_never_learns_while_training_goes_on(run):
    block, head = gradients(MODEL, loss(run))[:4], gradients(MODEL, loss(run))[4:]
    trained = [g is not None for g in block]
    assert trained == ([False] * 2 + [True] * 2 if run is LEFT_OUT["checkpoint_sequential"] else [False] * 4)
    assert all(equal(head, KEPT[4:]))  # so that nothing fails: the loss falls, only less far


def test_the_only_other_trace_of_it_is_a_second_warning():
    assert "None of the inputs have requires_grad=True. Gradients will be None" in warned(
        lambda: checkpoint(BLOCK, BATCH)
    )


@pytest.mark.filterwarnings("ignore")
def test_a_model_that_is_all_checkpoint_fails_in_backward():
    with pytest.raises(RuntimeError, match="element 0 of tensors does not require grad and does not have a grad_fn"):
        checkpoint(BLOCK, BATCH).sum().backward()


GIVEN = {
    "checkpoint": lambda x: checkpoint(BLOCK, x, use_reentrant=False),
    "checkpoint_sequential": lambda x: checkpoint_sequential(BLOCK, 2, x, use_reentrant=False),
    "checkpoint_sequential, fourth argument": lambda x: checkpoint_sequential(BLOCK, 2, x, False),  # noqa: FBT003
    "bound by a partial": lambda x: partial(checkpoint, use_reentrant=False)(BLOCK, x),
    "inside a dict of keywords": lambda x: checkpoint(BLOCK, x, **{"use_reentrant": False}),  # noqa: PIE804
}


@pytest.mark.parametrize("run", GIVEN.values(), ids=GIVEN)
def test_use_reentrant_false_gives_the_gradients_of_no_checkpoint_without_a_warning(run):
    assert warned(lambda: run(BATCH)) == ""
    assert all(equal(gradients(MODEL, loss(run)), KEPT))


def test_it_saves_as_much_memory():
    asks = BATCH.clone().requires_grad_()
    for reentrant in (True, False):
        assert saved_bytes(BLOCK, lambda: checkpoint(BLOCK, asks, use_reentrant=reentrant).sum()) == BATCH.nbytes  # noqa: B023
    assert saved_bytes(BLOCK, lambda: BLOCK(asks).sum()) == BATCH.nbytes + 2 * 4 * 32 * BATCH.itemsize


@pytest.mark.filterwarnings("ignore")
def test_a_trainable_embedding_before_the_block_makes_the_default_harmless_so_the_fix_changes_nothing():
    embed = nn.Linear(8, 8)
    model = nn.ModuleList([embed, BLOCK])
    kept = gradients(model, lambda: BLOCK(embed(BATCH)).sum())
    assert all(equal(gradients(model, lambda: checkpoint(BLOCK, embed(BATCH)).sum()), kept))
    assert all(equal(gradients(model, lambda: checkpoint(BLOCK, embed(BATCH), use_reentrant=False).sum()), kept))


class KeepsItsInput(torch.autograd.Function):
    """Keeps a tensor on `ctx` itself, past save_for_backward: saved tensor hooks never see it."""

    kept: list = []  # noqa: RUF012

    @staticmethod
    def forward(ctx, x):
        ctx.x = x * 2
        KeepsItsInput.kept.append(torch.multiprocessing.reductions.StorageWeakRef(ctx.x.untyped_storage()))
        return x * x

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.x


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_custom_function_that_keeps_tensors_on_ctx_is_freed_by_reentrant_only_so_there_the_fix_is_not_safe(reentrant):
    KeepsItsInput.kept.clear()
    out = checkpoint(KeepsItsInput.apply, BATCH.clone().requires_grad_(), use_reentrant=reentrant)
    assert out.requires_grad
    assert KeepsItsInput.kept[0].expired() is reentrant


def test_the_curried_form_is_right_from_torch_2_14_and_refused_before():
    curried = lambda: checkpoint(use_reentrant=False)(BLOCK)(BATCH)
    if inspect.signature(checkpoint).parameters["function"].default is None:
        assert all(equal(gradients(BLOCK, lambda: curried().sum()), gradients(BLOCK, lambda: BLOCK(BATCH).sum())))
    else:
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'function'"):
            curried()
