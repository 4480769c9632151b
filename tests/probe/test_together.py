"""Variants that differ in their optimizer alone are simulated at once, and are told the same."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from small_models import MODELS, perceptron

from remat.probe.answering import Answers
from remat.probe.messages import Request, Variant, VariantResult
from remat.probe.simulated.variants import CannotApplyError

if TYPE_CHECKING:
    from torch import nn

    from remat.probe.built import Built

BASE = Variant("adamw", batch=4, optimizer="adamw")
OPTIMIZERS = ("adamw", "adamw-fused", "adamw-8bit", "sgd-momentum", "adafactor", "none")


def results(built: Built, variants: tuple[Variant, ...], device: str = "cuda") -> list[VariantResult]:
    answers = Answers(built, Request("m.py:M", variants, device=device))
    events = [event for variant in variants for event in answers.of(variant, built, lambda: None)]
    return [event for event in events if isinstance(event, VariantResult)]


def counting(built: Built) -> tuple[Built, list[str]]:
    """The same, and a list that grows by one each time its model is made."""
    made: list[str] = []

    def make() -> nn.Module:
        made.append("model")
        return built.make_model()

    return replace(built, make_model=make), made


@pytest.mark.parametrize(
    ("name", "device"), [("llama", "cuda"), ("mixtral", "cuda"), ("conv_net", "cpu"), ("t5", "cpu")]
)
def test_each_is_told_what_it_is_told_alone(name: str, device: str) -> None:
    variants = tuple(replace(BASE, name=optimizer, optimizer=optimizer) for optimizer in OPTIMIZERS)
    alone = [results(MODELS[name](), (variant,), device)[0] for variant in variants]
    assert results(MODELS[name](), variants, device) == alone


@pytest.mark.parametrize("sharding", ["fsdp2", "ddp"])
def test_on_several_ranks_too(sharding: str) -> None:
    on_ranks = replace(BASE, world_size=8, sharding=sharding, checkpointing="all")
    variants = tuple(replace(on_ranks, name=name, optimizer=name) for name in ("adamw", "adamw-fused", "sgd-momentum"))
    alone = [results(MODELS["llama"](), (variant,))[0] for variant in variants]
    assert results(MODELS["llama"](), variants) == alone


def test_what_they_share_runs_once_and_what_differs_runs_for_itself() -> None:
    built, made = counting(perceptron())
    variants = [
        replace(BASE, name=f"{optimizer} {batch}", optimizer=optimizer, batch=batch)
        for batch in (4, 8)
        for optimizer in ("adamw", "adamw-fused", "none")
    ]
    found = results(built, tuple(variants))
    assert [(one.name, one.batch) for one in found] == [(variant.name, variant.batch) for variant in variants]
    assert len(made) == 4


def test_an_optimizer_that_does_not_exist_spoils_only_its_own_answer() -> None:
    built, made = counting(perceptron())
    wrong, others = replace(BASE, name="x", optimizer="adamm"), [replace(BASE, name=o, optimizer=o) for o in OPTIMIZERS]
    answers = Answers(built, Request("m.py:M", (wrong, *others)))
    with pytest.raises(CannotApplyError, match="adamm"):
        list(answers.of(wrong, built, lambda: None))
    assert len(made) == 2  # with the others, and then alone
    found = [one for variant in others for one in answers.of(variant, built, lambda: None)]
    assert found == [results(perceptron(), (variant,))[0] for variant in others]
    assert len(made) == 2 + len(others)


def test_what_was_estimated_before_is_answered_from_memory_under_its_new_name() -> None:
    built, made = counting(perceptron())
    known: dict[Variant, VariantResult] = {}
    request = Request("m.py:M", (BASE,))
    (first,) = Answers(built, request, known).of(BASE, built, lambda: None)
    again = replace(BASE, name="again")
    (second,) = Answers(built, replace(request, variants=(again,)), known).of(again, built, lambda: None)
    assert len(made) == 1
    assert second == replace(first, name="again")
