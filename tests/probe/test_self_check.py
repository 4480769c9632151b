"""On a torch that is not tested the probe proves itself with a real run first."""

from __future__ import annotations

import pytest
import torch
from small_models import perceptron
from torch import nn
from truth import peak_on_cpu

from remat.probe.built import Built, Inputs
from remat.probe.messages import Variant
from remat.probe.simulated import self_check
from remat.probe.simulated.estimate import estimate
from remat.probe.simulated.self_check import SMALL, agrees, really_taken

NONE = Variant("none", checkpointing="none", optimizer="adamw")


def test_what_is_really_taken_decides() -> None:
    assert agrees(really_taken())
    assert agrees(int(really_taken() * 1.019))
    assert not agrees(int(really_taken() * 1.03))


def test_an_untested_torch_is_verified_by_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(self_check, "TESTED", ("0.0.",))
    assert estimate(perceptron(), Variant("v", batch=8), "cpu").verified


def test_a_model_that_compiles_itself_is_run_eagerly_and_that_is_said() -> None:
    def make() -> nn.Module:
        return torch.compile(nn.Linear(8, 8))

    built = Built(make, lambda *_: Inputs((torch.randn(2, 8),)), lambda out, _: out.sum())
    result = estimate(built, Variant("v"), "cuda")
    assert any("torch.compile is left out" in said for said in result.assumptions)
    assert any("not named" in said for said in result.assumptions)


def test_the_context_of_a_known_gpu_is_added_for_the_process() -> None:
    result = estimate(perceptron(), Variant("v", batch=8), "cuda", "T4")
    assert result.process_bytes is not None
    assert result.process_bytes.low == result.process_bytes.high == (result.reserved_bytes or 0) + 140.875 * 2**20


def test_gradients_that_meet_are_added_in_place_where_a_real_run_does_so() -> None:
    # query, key and value are cut from one product: three gradients of its whole size meet
    expected = estimate(SMALL, NONE, "cpu")
    assert expected.allocated_bytes == pytest.approx(peak_on_cpu(SMALL, NONE), rel=0.01)
