"""What the libraries behind CUDA's operators take from the allocator, and when."""

from __future__ import annotations

import torch
from torch import nn

from remat.probe.built import Built, Inputs
from remat.probe.messages import Variant
from remat.probe.simulated.estimate import simulate


def test_a_product_takes_its_workspace_when_its_result_is_there() -> None:
    built = Built(
        lambda: nn.Linear(64, 32, bias=False), lambda *_: Inputs((torch.randn(8, 64),)), lambda out, _: out.sum()
    )
    log = simulate(built, Variant("v"), "cuda", "A100").log
    taken = [allocation.operator for allocation in log.allocations]
    first = taken.index("cublas")
    assert taken[first - 1] == "aten::mm"
    assert taken.count("cublas") == 2
