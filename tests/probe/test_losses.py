"""Losses take what real ones take: some keep a storage as large as what they compare, until backward is through."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn
from torch.nn import functional
from truth import peak_on_cpu

from remat.probe.built import Built, Inputs
from remat.probe.messages import Variant
from remat.probe.simulated.estimate import estimate, simulate

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS, WIDTH = 512, 1024
LOSSES: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "mean squared error": functional.mse_loss,
    "its sum": lambda out, goal: functional.mse_loss(out, goal, reduction="sum"),
    "its values": lambda out, goal: functional.mse_loss(out, goal, reduction="none").mean(),
    "of one column": lambda out, goal: functional.mse_loss(out, goal[:, :1].expand_as(out)),
    "smooth L1": functional.smooth_l1_loss,
    "Huber": functional.huber_loss,
    "L1": functional.l1_loss,
    "soft margin": functional.soft_margin_loss,
    "binary cross-entropy": lambda out, goal: functional.binary_cross_entropy(out.sigmoid(), goal.sigmoid()),
    "binary cross-entropy of logits": functional.binary_cross_entropy_with_logits,
    "cross-entropy": lambda out, goal: functional.cross_entropy(out, goal.argmax(1)),
    "divergence": lambda out, goal: functional.kl_div(out.log_softmax(1), goal.softmax(1), reduction="batchmean"),
}


def _built(loss: str) -> Built:
    def batch(_model: nn.Module, size: int | None, _seq: int | None) -> Inputs:
        return Inputs((torch.randn(size or ROWS, 8),))

    return Built(lambda: nn.Linear(8, WIDTH), batch, lambda out, _: LOSSES[loss](out, torch.rand_like(out)))


@pytest.mark.parametrize("loss", LOSSES)
def test_a_loss_takes_what_a_real_one_takes(loss: str) -> None:
    built, variant = _built(loss), Variant("as-written")
    assert estimate(built, variant, "cpu").allocated_bytes == pytest.approx(peak_on_cpu(built, variant), rel=0.002)


@pytest.mark.parametrize("loss", ["mean squared error", "smooth L1", "soft margin", "binary cross-entropy"])
def test_it_is_as_large_on_cuda_where_the_same_code_makes_it(loss: str) -> None:
    log = simulate(_built(loss), Variant("as-written"), "cuda").log
    kept = [log.allocations[index] for index in log.kept]
    (scalar,) = [one for one in kept if "loss" in one.operator or "cross_entropy" in one.operator]
    assert scalar.bytes == ROWS * WIDTH * 4
