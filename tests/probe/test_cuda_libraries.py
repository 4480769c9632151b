"""What the libraries behind CUDA's operators take from the allocator, and when."""

from __future__ import annotations

import torch
from torch import nn

from remat.probe.built import Built, Inputs
from remat.probe.messages import Variant
from remat.probe.simulated.estimate import estimate, simulate


def test_a_product_takes_its_workspace_when_its_result_is_there() -> None:
    built = Built(
        lambda: nn.Linear(64, 32, bias=False), lambda *_: Inputs((torch.randn(8, 64),)), lambda out, _: out.sum()
    )
    log = simulate(built, Variant("v"), "cuda", "A100").log
    taken = [allocation.operator for allocation in log.allocations]
    first = taken.index("cublas")
    assert taken[first - 1] == "aten::mm"
    assert taken.count("cublas") == 2


class FirstRows(nn.Module):
    """As adapters are made that start from the largest singular vectors of a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(64, 64))
        self.register_buffer("rows", torch.linalg.svd(self.weight.detach())[2][:4].contiguous())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight @ self.rows.T


def test_the_first_right_singular_vectors_keep_all_of_them_on_cuda_alone() -> None:
    built = Built(FirstRows, lambda *_: Inputs((torch.randn(8, 64),)), lambda out, _: out.sum())
    for device, size in (("cpu", 4 * 64 * 4), ("cuda", 64 * 64 * 4), ("cpu", 4 * 64 * 4)):
        log = simulate(built, Variant("v"), device).log
        assert [allocation.bytes for allocation in log.allocations if allocation.category == "buffers"] == [size]


class Spectrum(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(128, 256))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ torch.fft.ifft2(self.weight).real


def test_a_transform_has_a_work_area_while_it_runs() -> None:
    built = Built(Spectrum, lambda *_: Inputs((torch.randn(8, 128),)), lambda out, _: out.sum())
    log = simulate(built, Variant("v"), "cuda", "L40S").log
    areas = [number for number, made in enumerate(log.allocations, 1) if made.operator == "aten::_fft_c2c"]
    work, result = areas[1], areas[0]
    assert log.allocations[work - 1].bytes == log.allocations[result - 1].bytes == 128 * 256 * 8
    assert log.events.index(-work) == log.events.index(work) + 1
    assert any("cuFFT" in said for said in estimate(built, Variant("v"), "cuda", "L40S").assumptions)
