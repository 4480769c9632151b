"""The estimate for the CPU is what a real run on the CPU takes."""

from __future__ import annotations

from functools import cache
from statistics import median

import pytest
from small_models import MODELS
from truth import peak_on_cpu

from remat.probe.messages import Variant
from remat.probe.simulated.estimate import estimate

WAYS = {
    "none": Variant("none", checkpointing="none"),
    "non-reentrant": Variant("non-reentrant", checkpointing="all"),
    "reentrant": Variant("reentrant", checkpointing="all", reentrant=True),
}
WHOLE_LSTM = {
    "none": WAYS["none"],
    "non-reentrant": Variant("non-reentrant", checkpointing="modules:lstm"),
}
ROWS = [(name, way) for name in MODELS for way in (WHOLE_LSTM if name == "lstm" else WAYS)]


@cache
def error(name: str, way: str) -> float:
    """How far the estimate is from the truth, as a share of the truth."""
    variant = (WHOLE_LSTM if name == "lstm" else WAYS)[way]
    result = estimate(MODELS[name](), variant, "cpu")
    assert result.active == (way != "none"), result.inactive_because
    return abs(result.allocated_bytes / peak_on_cpu(MODELS[name](), variant) - 1)


@pytest.mark.parametrize(("name", "way"), ROWS)
def test_the_estimate_for_the_cpu_is_what_a_real_run_takes(name: str, way: str) -> None:
    assert error(name, way) <= 0.02


def test_half_of_the_estimates_are_within_a_thousandth() -> None:
    assert len(ROWS) >= 25
    assert median(error(name, way) for name, way in ROWS) <= 0.001


OTHER_VARIANTS = [
    ("perceptron", Variant("bf16", dtype="bf16")),
    ("perceptron", Variant("autocast", autocast="bf16")),
    ("conv_net", Variant("convolutions in half precision", autocast="bf16", checkpointing="all")),
    ("gpt2", Variant("every second block", checkpointing="every-2")),
    ("llama", Variant("keep the products", checkpointing="selective")),
    ("llama", Variant("bf16", dtype="bf16", checkpointing="all")),
    ("gpt2", Variant("accumulation", grad_accum=2, checkpointing="none")),
    ("gpt2", Variant("momentum", optimizer="sgd-momentum", checkpointing="none")),
    ("vit", Variant("foreach", optimizer="adamw-foreach", batch=2, checkpointing="none")),
    ("vit", Variant("fused", optimizer="adamw-fused", batch=2, checkpointing="none")),
    ("perceptron", Variant("adafactor", optimizer="adafactor", batch=16)),
]


@pytest.mark.parametrize(("name", "variant"), OTHER_VARIANTS, ids=lambda item: getattr(item, "name", item))
def test_other_variants_agree_with_a_real_run_too(name: str, variant: Variant) -> None:
    result = estimate(MODELS[name](), variant, "cpu")
    assert result.allocated_bytes == pytest.approx(peak_on_cpu(MODELS[name](), variant), rel=0.02)
