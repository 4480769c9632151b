"""What a variant does to a model, and what is said of it."""

from __future__ import annotations

import pytest
import torch
from small_models import MODELS
from torch import nn

from remat.probe.built import Built, FactMissingError, Inputs
from remat.probe.messages import Variant
from remat.probe.simulated.estimate import estimate
from remat.probe.simulated.variants import CannotApplyError
from remat.probe.target.ways import Arguments, Ways


def test_lora_says_where_its_adapters_are_and_what_they_are_made_of() -> None:
    every = estimate(MODELS["llama"](), Variant("v", lora_rank=4), "cpu")
    (said,) = (text for text in every.assumptions if "LoRA" in text)
    assert said.startswith("LoRA of rank 4 on all linear layers")
    assert "adapters are in fp32" in said
    few = estimate(MODELS["llama"](), Variant("v", lora_rank=4, lora_targets=("q_proj", "v_proj")), "cpu")
    assert any("LoRA of rank 4 on q_proj, v_proj" in text for text in few.assumptions)
    assert few.by_category["parameters"] < every.by_category["parameters"]


def test_more_blocks_than_there_are_cannot_be_checkpointed() -> None:
    with pytest.raises(CannotApplyError, match="first-99 asks for more than the 4 blocks that there are"):
        estimate(MODELS["conv_net"](), Variant("v", checkpointing="first-99"), "cpu")


def test_what_is_asserted_of_values_holds() -> None:
    class Careful(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            assert torch.allclose(x, x)
            return super().forward(x)

    built = Built(lambda: Careful(8, 8), lambda *_: Inputs((torch.randn(2, 8),)), lambda out, _: out.sum())
    assert "allclose() is taken to be true" in " ".join(estimate(built, Variant("v"), "cpu").assumptions)


def test_a_model_without_parameters_is_asked_for_in_words() -> None:
    with pytest.raises(FactMissingError, match="a model to train: the ReLU it makes has no parameters"):
        Ways([Arguments()]).call(nn.ReLU)
