"""What use_reentrant=True forbids, what it silently drops, and that use_reentrant=False does neither."""

# ruff: noqa: E731
from __future__ import annotations

import pytest
import torch
from measure import equal, gradients, warned
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointImpl, checkpoint_wrapper
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

BLOCK = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 8))
FIRST = nn.Linear(8, 8)
MODEL = nn.ModuleList([FIRST, BLOCK])
BATCH = torch.randn(4, 8)
INCOMPATIBLE = r"When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad\(\)"


def run(x, *, reentrant, function=BLOCK):
    """reentrant=None: no checkpoint at all."""
    return function(x) if reentrant is None else checkpoint(function, x, use_reentrant=reentrant)


def asking():
    return BATCH.clone().requires_grad_()


def weights_after(backward):
    BLOCK.zero_grad(set_to_none=True)
    backward()
    return BLOCK[0].weight.grad


FORMS = {
    "checkpoint": lambda x: checkpoint(BLOCK, x, use_reentrant=True),
    "checkpoint_sequential": lambda x: checkpoint_sequential(nn.Sequential(BLOCK, nn.ReLU()), 2, x, use_reentrant=True),
    "checkpoint_wrapper": checkpoint_wrapper(BLOCK, checkpoint_impl=CheckpointImpl.REENTRANT),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_block_whose_inputs_ask_for_no_gradient_never_learns(form):
    head = nn.Linear(8, 1)
    step = lambda: weights_after(head(form(BATCH)).sum().backward)
    assert "None of the inputs have requires_grad=True. Gradients will be None" in warned(step)
    assert BLOCK[0].weight.grad is None
    assert head.weight.grad is not None
    assert weights_after(head(checkpoint(BLOCK, BATCH, use_reentrant=False)).sum().backward) is not None


def test_the_gradient_of_an_input_can_not_be_asked_for():
    x = asking()
    with pytest.raises(RuntimeError, match=INCOMPATIBLE):
        torch.autograd.grad(run(x, reentrant=True).sum(), x)
    (found,) = torch.autograd.grad(run(x, reentrant=False).sum(), x)
    assert torch.equal(found, torch.autograd.grad(run(x, reentrant=None).sum(), x)[0])


def test_the_gradient_of_a_parameter_can_not_be_asked_for():
    weight = BLOCK[0].weight
    with pytest.raises(RuntimeError, match="appears to not have been used in the graph"):
        torch.autograd.grad(run(asking(), reentrant=True).sum(), weight)
    (found,) = torch.autograd.grad(run(asking(), reentrant=False).sum(), weight)
    assert torch.equal(found, torch.autograd.grad(run(asking(), reentrant=None).sum(), weight)[0])


def test_backward_of_chosen_parameters_silently_gives_nothing():
    def chosen(*, reentrant):
        return lambda: run(asking(), reentrant=reentrant).sum().backward(inputs=[BLOCK[0].weight])

    assert weights_after(chosen(reentrant=True)) is None
    assert torch.equal(weights_after(chosen(reentrant=False)), weights_after(chosen(reentrant=None)))


def test_a_gradient_penalty_can_not_be_computed():
    def penalty(*, reentrant):
        x = asking()
        (slope,) = torch.autograd.grad(run(x, reentrant=reentrant).sum(), x, create_graph=True)
        return slope.square().sum()

    with pytest.raises(RuntimeError, match=INCOMPATIBLE):
        penalty(reentrant=True)
    kept = gradients(BLOCK, lambda: penalty(reentrant=None))
    assert all(equal(gradients(BLOCK, lambda: penalty(reentrant=False))[:3], kept[:3]))


@pytest.mark.filterwarnings("ignore:None of the inputs")
def test_tensors_inside_a_dict_are_cut_off_from_what_made_them():
    def nested(*, reentrant):
        x = {"hidden": FIRST(BATCH)}
        return run(x, reentrant=reentrant, function=lambda d: BLOCK(d["hidden"])).sum()

    with (
        pytest.raises(RuntimeError, match="does not require grad"),
        pytest.warns(UserWarning, match="None of the inputs"),
    ):
        nested(reentrant=True).backward()
    kept = gradients(MODEL, lambda: nested(reentrant=None))
    assert all(equal(gradients(MODEL, lambda: nested(reentrant=False)), kept))


def test_a_dict_shared_by_two_blocks_fails_in_backward():
    def shared(*, reentrant):
        h, context = FIRST(BATCH), {"context": FIRST(BATCH).tanh()}
        for _ in range(2):
            block = lambda h, d: BLOCK(h) + d["context"]
            h = block(h, context) if reentrant is None else checkpoint(block, h, context, use_reentrant=reentrant)
        return h.sum()

    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        shared(reentrant=True).backward()
    kept = gradients(MODEL, lambda: shared(reentrant=None))
    assert all(equal(gradients(MODEL, lambda: shared(reentrant=False)), kept))


def test_an_output_that_was_detached_pretends_to_ask_for_a_gradient():
    forward = lambda x: (BLOCK(x), BLOCK(x).detach())
    assert run(asking(), reentrant=True, function=forward)[1].requires_grad
    assert not run(asking(), reentrant=False, function=forward)[1].requires_grad


RIGHT = {
    "the input asks for a gradient": asking,
    "a trainable layer comes before": lambda: FIRST(BATCH),
}


@pytest.mark.parametrize("make", RIGHT.values(), ids=RIGHT)
def test_plain_training_is_right_where_an_input_asks_for_a_gradient_so_the_rule_only_informs(make):
    kept = gradients(MODEL, lambda: run(make(), reentrant=None).sum())
    assert all(equal(gradients(MODEL, lambda: run(make(), reentrant=True).sum()), kept))
    assert all(equal(gradients(MODEL, lambda: run(make(), reentrant=False).sum()), kept))


def test_a_dummy_input_that_asks_for_a_gradient_makes_it_right_too():
    dummy = torch.ones(1, requires_grad=True)
    kept = gradients(BLOCK, lambda: BLOCK(BATCH).sum())
    found = gradients(BLOCK, lambda: checkpoint(lambda _, x: BLOCK(x), dummy, BATCH, use_reentrant=True).sum())
    assert all(equal(found, kept))
