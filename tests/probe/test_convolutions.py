"""The estimate for the CPU takes the scratch memory of convolutions that real ones take, however they convolve."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm
from truth import peak_on_cpu

from remat.probe.built import Built, Inputs
from remat.probe.messages import Variant
from remat.probe.simulated import tried
from remat.probe.simulated.estimate import estimate

if TYPE_CHECKING:
    from collections.abc import Callable

LINE, PLANE, SPACE = (256,), (24, 24), (8, 12, 12)
KINDS = {
    1: (nn.Conv1d, nn.ConvTranspose1d, LINE),
    2: (nn.Conv2d, nn.ConvTranspose2d, PLANE),
    3: (nn.Conv3d, nn.ConvTranspose3d, SPACE),
}
LAST = {2: torch.channels_last, 3: torch.channels_last_3d}


@dataclass(frozen=True, slots=True)
class Case:
    """One convolution. `given`: what its input is made into; `frozen`: its weight; `first`: its input needs no
    gradient.
    """

    dims: int
    channels: tuple[int, int] = (32, 32)
    kernel: int = 3
    transposed: bool = False
    given: str = "as it is"
    frozen: bool = False
    first: bool = False
    normed: bool = False
    batch: int = 6
    dtype: torch.dtype = torch.float32
    more: dict[str, object] = field(default_factory=dict)


class Around(nn.Module):
    def __init__(self, case: Case) -> None:
        super().__init__()
        self.case = case
        self.scale = nn.Parameter(torch.ones(1, dtype=case.dtype))
        layer = KINDS[case.dims][case.transposed](*case.channels, case.kernel, dtype=case.dtype, **case.more)
        layer.weight.requires_grad_(not case.frozen)
        if case.given == "channels_last":
            layer = layer.to(memory_format=LAST[case.dims])
        self.layer = weight_norm(layer) if case.normed else layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x if self.case.first else x * self.scale
        return self.layer(_laid_out(x, self.case)).relu() * self.scale


def _laid_out(x: torch.Tensor, case: Case) -> torch.Tensor:
    ways: dict[str, Callable[[], torch.Tensor]] = {
        "as it is": lambda: x,
        "transposed": lambda: x.movedim(-1, 1),
        "channels_last": lambda: x.contiguous(memory_format=LAST[case.dims]),
        "time first": lambda: x.transpose(0, 1),
        "sliced": lambda: x[..., 1:-1],
        "expanded": lambda: x.expand(-1, case.channels[0], *x.shape[2:]),
    }
    return ways[case.given]()


def _built(case: Case) -> Built:
    def batch(_model: nn.Module, size: int | None, _seq: int | None) -> Inputs:
        count, channels, sizes = size or case.batch, case.channels[0], KINDS[case.dims][2]
        shapes = {
            "transposed": (count, *sizes, channels),
            "time first": (channels, count, *sizes),
            "expanded": (count, 1, *sizes),
        }
        return Inputs((torch.randn(shapes.get(case.given, (count, channels, *sizes)), dtype=case.dtype),))

    return Built(lambda: Around(case), batch, lambda out, _: out.square().mean())


CASES = {
    "1-D": Case(1),
    "1-D on a transposed input": Case(1, given="transposed"),
    "1-D on a batch that is not outermost": Case(1, given="time first"),
    "1-D, dilated": Case(1, kernel=5, more={"dilation": 4, "padding": 8}),
    "1-D, depthwise and causal": Case(1, kernel=4, more={"groups": 32, "padding": 3}),
    "1-D with a stride and a normed weight": Case(1, kernel=10, normed=True, more={"stride": 5}),
    "1-D, first of a sound": Case(1, (1, 48), kernel=10, first=True, more={"stride": 5, "bias": False}),
    "1-D, transposed": Case(1, kernel=16, transposed=True, more={"stride": 8, "padding": 4}),
    "1-D, a slice": Case(1, given="sliced"),
    "2-D": Case(2, more={"padding": 1}),
    "2-D, many samples": Case(2, batch=23, more={"padding": 1}),
    "2-D, first of a picture": Case(2, (3, 64), kernel=7, first=True, more={"stride": 2, "padding": 3}),
    "2-D, odd channels": Case(2, (13, 27), more={"padding": 1}),
    "2-D, a point": Case(2, (32, 64), kernel=1),
    "2-D, a point with a stride": Case(2, (32, 64), kernel=1, more={"stride": 2}),
    "2-D, patches": Case(2, (3, 96), kernel=8, first=True, more={"stride": 8}),
    "2-D without a bias": Case(2, more={"bias": False}),
    "2-D with a frozen weight": Case(2, frozen=True),
    "2-D, frozen, whose input needs no gradient": Case(2, frozen=True, first=True),
    "2-D in groups": Case(2, (32, 64), more={"groups": 4, "padding": 1}),
    "2-D, depthwise": Case(2, kernel=7, more={"groups": 32, "padding": 3}),
    "2-D, depthwise with a multiplier": Case(2, (32, 64), more={"groups": 32, "stride": 2}),
    "2-D, dilated": Case(2, more={"dilation": 4, "padding": 4}),
    "2-D, dilated, many samples": Case(2, batch=17, more={"dilation": 2, "padding": 2}),
    "2-D, channels last": Case(2, given="channels_last", more={"padding": 1}),
    "2-D, channels last, depthwise": Case(2, given="channels_last", more={"groups": 32, "padding": 1}),
    "2-D on a transposed input": Case(2, given="transposed"),
    "2-D, expanded": Case(2, given="expanded"),
    "2-D in fp64": Case(2, dtype=torch.float64),
    "2-D, transposed": Case(2, kernel=4, transposed=True, more={"stride": 2, "padding": 1}),
    "2-D, transposed, many samples": Case(2, kernel=2, transposed=True, batch=19, more={"stride": 2}),
    "2-D, transposed, in groups": Case(2, transposed=True, more={"groups": 4, "output_padding": 1, "stride": 2}),
    "2-D, transposed, depthwise": Case(2, kernel=4, transposed=True, more={"groups": 32, "stride": 2}),
    "2-D, transposed, channels last": Case(2, given="channels_last", kernel=4, transposed=True, more={"stride": 2}),
    "3-D": Case(3, (16, 16), more={"padding": 1}),
    "3-D, many samples": Case(3, (16, 16), batch=14, more={"padding": 1}),
    "3-D, first of a volume": Case(3, (1, 16), first=True, more={"padding": 1}),
    "3-D, dilated": Case(3, (16, 16), more={"dilation": 2, "padding": 2}),
    "3-D, depthwise": Case(3, (16, 16), more={"groups": 16, "padding": 1}),
    "3-D, channels last": Case(3, (16, 16), given="channels_last"),
    "3-D, transposed": Case(3, (16, 16), kernel=2, transposed=True, more={"stride": 2}),
    "3-D, tubes": Case(3, (3, 64), kernel=4, first=True, more={"stride": 4}),
}


@pytest.mark.parametrize("name", CASES)
def test_a_convolution_takes_what_a_real_one_takes(name: str) -> None:
    torch.set_num_threads(2)  # with one thread all samples are tried where there are so few
    built, variant = _built(CASES[name]), Variant("as-written")
    assert estimate(built, variant, "cpu").allocated_bytes == pytest.approx(peak_on_cpu(built, variant), rel=0.002)


@pytest.mark.parametrize("name", ["1-D, dilated", "2-D, depthwise", "2-D, transposed", "3-D"])
def test_it_does_with_one_thread_too(name: str) -> None:
    built, variant = _built(replace(CASES[name], batch=35)), Variant("as-written")
    assert estimate(built, variant, "cpu").allocated_bytes == pytest.approx(peak_on_cpu(built, variant), rel=0.002)


FEW_ROWS = [
    "1-D on a transposed input", "1-D, dilated", "1-D, first of a sound", "1-D, transposed", "2-D, many samples",
    "2-D, odd channels", "2-D, depthwise with a multiplier", "2-D, dilated, many samples", "2-D, channels last",
    "2-D, transposed", "3-D, many samples", "3-D, dilated", "3-D, transposed",
]  # fmt: skip


@pytest.mark.parametrize("name", FEW_ROWS)
def test_what_is_large_is_tried_on_few_rows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(2)
    monkeypatch.setattr(tried, "_MUCH_WORK", 0.0)
    monkeypatch.setattr(tried, "_FEW_ROWS", 3)
    built, variant = _built(CASES[name]), Variant("as-written")
    assert estimate(built, variant, "cpu").allocated_bytes == pytest.approx(peak_on_cpu(built, variant), rel=0.01)


def test_what_is_too_large_to_try_is_taken_for_plain_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tried, "_MOST_WORK", 1.0)
    monkeypatch.setattr(tried, "_known", {})
    built, variant = _built(CASES["2-D"]), Variant("as-written")
    result = estimate(built, variant, "cpu")
    assert result.allocated_bytes == pytest.approx(peak_on_cpu(built, variant), rel=0.02)
    assert any("too large to try" in assumption for assumption in result.assumptions)
