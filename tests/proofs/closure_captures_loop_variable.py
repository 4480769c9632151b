"""A closure given to checkpoint looks its names up again in backward: by then the loop has moved on."""

# ruff: noqa: B023, E731  # ruff warns of closures in loops too: here they are the point
from __future__ import annotations

from functools import partial

import pytest
import torch
from measure import equal, gradients
from torch import nn
from torch.utils.checkpoint import checkpoint

LAYERS = nn.ModuleList([nn.Linear(8, 8) for _ in range(4)])
X = torch.randn(3, 8)


def plain(x):
    for layer in LAYERS:
        x = layer(x).tanh()
    return x


def gradients_of(forward, *, reentrant=False):
    """The input asks for a gradient: with one that does not, reentrant checkpoints give none, whatever they capture."""
    return gradients(LAYERS, lambda: forward(X.clone().requires_grad_(), reentrant).square().mean())


KEPT = gradients(LAYERS, lambda: plain(X).square().mean())


def lambda_over_the_layer(x, reentrant):
    for layer in LAYERS:
        x = checkpoint(lambda h: layer(h).tanh(), x, use_reentrant=reentrant)
    return x


def function_over_the_layer(x, reentrant):
    for layer in LAYERS:

        def forward(h):
            return layer(h).tanh()

        x = checkpoint(forward, x, use_reentrant=reentrant)
    return x


def lambda_over_the_index(x, reentrant):
    for i in range(len(LAYERS)):
        x = checkpoint(lambda h: LAYERS[i](h).tanh(), x, use_reentrant=reentrant)
    return x


class Stack(nn.Module):
    def forward(self, x, reentrant):
        for self.current in LAYERS:
            x = checkpoint(lambda h: self.current(h).tanh(), x, use_reentrant=reentrant)
        return x


LATE = [lambda_over_the_layer, function_over_the_layer, lambda_over_the_index, Stack()]


@pytest.mark.parametrize("forward", LATE)
def test_without_reentrancy_every_layer_but_the_last_silently_gets_a_wrong_gradient(forward):
    weights_and_biases = equal(gradients_of(forward), KEPT)
    assert weights_and_biases == [False, False] * 3 + [True, True]


@pytest.mark.parametrize("forward", LATE)
def test_with_reentrancy_only_the_last_layer_gets_a_gradient_at_all_and_it_is_wrong(forward):
    found = gradients_of(forward, reentrant=True)
    assert [g is None for g in found] == [True, True] * 3 + [False, False]
    assert not equal(found, KEPT)[-1]


def bound_as_default(x, reentrant):
    for layer in LAYERS:
        x = checkpoint(lambda h, layer=layer: layer(h).tanh(), x, use_reentrant=reentrant)
    return x


def bound_by_partial(x, reentrant):
    for layer in LAYERS:
        x = checkpoint(partial(lambda layer, h: layer(h).tanh(), layer), x, use_reentrant=reentrant)
    return x


def bound_by_factory(x, reentrant):
    def over(layer):
        return lambda h: layer(h).tanh()

    for layer in LAYERS:
        x = checkpoint(over(layer), x, use_reentrant=reentrant)
    return x


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("forward", [bound_as_default, bound_by_partial, bound_by_factory])
def test_binding_the_layer_when_the_closure_is_made_gives_the_gradients_of_no_checkpoint(forward, reentrant):
    assert all(equal(gradients_of(forward, reentrant=reentrant), KEPT))


def scaled(x, *, bind):
    """The captured name is no loop variable, but the loop binds it anew. bind=None: no checkpoint."""
    scale = torch.ones(())
    for layer in LAYERS:
        forward = (lambda h, m=layer, s=scale: m(h * s)) if bind else (lambda h, m=layer: m(h * scale))
        x = forward(x) if bind is None else checkpoint(forward, x, use_reentrant=False)
        scale = scale * 2
    return x.square().mean()


def loss_in_slices(x, *, bind):
    """Every slice is trained towards the targets of the last."""
    entropy, total = nn.functional.cross_entropy, 0
    for hidden, target in zip(plain(x).chunk(3), torch.tensor([1, 2, 3]).chunk(3), strict=True):
        forward = (lambda h, t=target: entropy(h, t)) if bind else (lambda h: entropy(h, target))
        total += forward(hidden) if bind is None else checkpoint(forward, hidden, use_reentrant=False)
    return total


@pytest.mark.parametrize("loss", [scaled, loss_in_slices])
def test_any_name_that_the_loop_rebinds_gives_wrong_gradients_and_binding_it_right_ones(loss):
    kept, late, bound = (gradients(LAYERS, lambda: loss(X, bind=bind)) for bind in (None, False, True))
    assert not any(equal(late, kept)[0:6:2])
    assert all(equal(bound, kept))


def test_a_loop_that_runs_backward_before_the_next_turn_is_right():
    def train(*, kept):
        LAYERS.zero_grad(set_to_none=True)
        for batch in torch.linspace(-1, 1, 48).view(2, 3, 8):
            forward = lambda h: plain(h) * batch.sum()
            (forward(batch) if kept else checkpoint(forward, batch, use_reentrant=False)).sum().backward()
        return [p.grad for p in LAYERS.parameters()]

    assert all(equal(train(kept=False), train(kept=True)))


def test_a_loop_left_right_after_the_call_is_right():
    def first():
        for layer in LAYERS:
            x = checkpoint(lambda h: layer(h).tanh(), X, use_reentrant=False)
            break
        return x

    assert torch.equal(
        gradients(LAYERS, lambda: first().sum())[0], gradients(LAYERS, lambda: LAYERS[0](X).tanh().sum())[0]
    )
