"""LSTMs on the CPU, as oneDNN runs them."""

from __future__ import annotations

import pytest
import torch
from small_models import MODELS
from truth import peak_on_cpu

from remat.probe.messages import Variant
from remat.probe.simulated.estimate import estimate
from remat.probe.simulated.kernels import rnn_workspace


@pytest.mark.parametrize(
    "variant",
    [
        Variant("frozen, with LoRA on its head", checkpointing="none", lora_rank=4),
        Variant("sizes that fill no page", checkpointing="none", batch=3, seq=17),
        Variant("one long sequence", checkpointing="none", optimizer="sgd", batch=1, seq=200),
    ],
    ids=lambda variant: variant.name,
)
def test_an_lstm_takes_what_the_library_takes(variant: Variant) -> None:
    built = MODELS["lstm"]()
    assert estimate(built, variant, "cpu").allocated_bytes == peak_on_cpu(built, variant)


@pytest.mark.parametrize(
    ("length", "batch", "width", "hidden"),
    [(4, 16, 128, 128), (8, 17, 128, 100), (3, 5, 7, 11), (8, 16, 512, 100), (2, 3, 16, 8), (5, 2, 256, 512)],
)
def test_the_workspace_has_the_library_s_size(length: int, batch: int, width: int, hidden: int) -> None:
    layer = torch.nn.LSTM(width, hidden)
    state = torch.zeros(batch, hidden)
    how = (False, [], 2, hidden, 1, True, False, False, True)
    out = torch.ops.aten.mkldnn_rnn_layer.default(
        torch.randn(length, batch, width), *layer._flat_weights, state, state, *how
    )
    assert rnn_workspace(length, batch, width, 4 * hidden, hidden) == out[3].numel()
