"""What estimates for CUDA know of its kernels, each fact by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn
from torch.nn import functional

from remat.probe.built import Built, Inputs
from remat.probe.messages import Variant
from remat.probe.simulated.cuda.architecture import capability, workspace_bytes
from remat.probe.simulated.estimate import estimate, simulate

if TYPE_CHECKING:
    from remat.probe.simulated.log import Log

Forward = Callable[[torch.Tensor], torch.Tensor]


def log_of(forward: Forward, *, dtype: torch.dtype = torch.float16, gpu: str = "A100", **settings: object) -> Log:
    """Two steps of `forward` on [2, 4, 32, 64] numbers that need a gradient."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(64, dtype=dtype))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return forward(x * self.weight)

    built = Built(Model, lambda *_: Inputs((torch.randn(2, 4, 32, 64, dtype=dtype),)), lambda out, _: out.float().sum())
    return simulate(built, Variant("v", **settings), "cuda", gpu).log


def operators(log: Log) -> set[str]:
    return {allocation.operator.removeprefix("aten::") for allocation in log.allocations}


def attend(x: torch.Tensor) -> torch.Tensor:
    return functional.scaled_dot_product_attention(x, x, x, is_causal=True)


@pytest.mark.parametrize(
    ("gpu", "dtype", "kernel"),
    [
        ("A100", torch.bfloat16, "flash"),
        ("NVIDIA H100", torch.float16, "flash"),
        ("Tesla T4 (sm_75, 14912 MiB)", torch.float16, "efficient"),  # flash needs Ampere
        ("A100", torch.float32, "efficient"),  # flash needs 16 bits
    ],
)
def test_attention_takes_the_kernel_that_the_gpu_has(gpu: str, dtype: torch.dtype, kernel: str) -> None:
    assert f"_scaled_dot_product_{kernel}_attention" in operators(log_of(attend, dtype=dtype, gpu=gpu))


def test_a_mask_rules_flash_attention_out() -> None:
    def masked(x: torch.Tensor) -> torch.Tensor:
        mask = torch.ones(32, 32, dtype=torch.bool).tril()
        return functional.scaled_dot_product_attention(query=x, key=x, value=x, attn_mask=mask)

    assert "_scaled_dot_product_efficient_attention" in operators(log_of(masked))


def test_dropout_keeps_one_byte_a_value() -> None:
    log = log_of(lambda x: functional.dropout(x, 0.1))
    assert {a.bytes for a in log.allocations if a.operator == "aten::native_dropout"} == {2 * 16384, 16384}


def test_softmax_of_fp16_in_fp32_makes_no_copy_and_its_backward_one_product() -> None:
    log = log_of(lambda x: functional.softmax(x, -1, dtype=torch.float32))
    forward = [a for a in log.allocations if a.phase == "forward" and a.step == 1]
    assert [a.bytes for a in forward if a.operator == "aten::_to_copy"] == []
    backward = [a.bytes for a in log.allocations if a.operator == "aten::_softmax_backward_data" and a.step == 1]
    assert backward == [2 * 16384, 4 * 16384]  # the gradient, then `grad * output`


def test_softmax_of_bf16_in_fp32_makes_a_copy() -> None:
    log = log_of(lambda x: functional.softmax(x, -1, dtype=torch.float32), dtype=torch.bfloat16)
    assert 4 * 16384 in [a.bytes for a in log.allocations if a.operator == "aten::_to_copy" and a.phase == "forward"]


def test_autocast_for_cuda_casts_products_down_and_norms_up() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return functional.layer_norm(x @ x.transpose(-1, -2), (32,))

    log = log_of(forward, dtype=torch.float32)
    sizes = {a.operator: a.bytes for a in log.allocations if a.phase == "forward" and a.step == 1}
    assert sizes["aten::bmm"] == 2 * 2 * 4 * 32 * 32
    assert max(a.bytes for a in log.allocations if a.operator == "aten::native_layer_norm") == 4 * 2 * 4 * 32 * 32


def test_each_thread_that_multiplies_has_a_workspace() -> None:
    log = log_of(lambda x: x @ x.transpose(-1, -2), gpu="H200")
    workspaces = [a for a in log.allocations if a.category == "workspaces"]
    assert [(a.phase, a.bytes) for a in workspaces] == [("forward", 32 * 2**20), ("backward", 32 * 2**20)]
    assert workspace_bytes(capability("T4")) == 8.125 * 2**20


def test_the_optimizer_s_default_is_foreach_and_its_step_counters_are_not_on_the_gpu() -> None:
    log = log_of(lambda x: x)
    assert any(a.operator.startswith("aten::_foreach") for a in log.allocations)
    assert sum(a.bytes for a in log.allocations if a.category == "optimizer") == 2 * 2 * 64


@pytest.mark.parametrize(
    ("name", "generation"),
    [
        ("Tesla T4", (7, 5)),
        ("NVIDIA L40S", (8, 9)),
        ("NVIDIA A10G", (8, 6)),
        ("NVIDIA A100-SXM4-80GB", (8, 0)),
        ("NVIDIA GeForce RTX 3090", (8, 6)),
        ("NVIDIA H200", (9, 0)),
        ("AMD Instinct MI250X", (0, 0)),
        (None, (8, 0)),
    ],
)
def test_a_gpu_s_generation_is_told_from_its_name(name: str | None, generation: tuple[int, int]) -> None:
    assert capability(name) == generation


def test_the_categories_add_up_to_what_the_allocator_hands_out() -> None:
    """Of a block over 1 MiB the allocator splits no end under 1 MiB off: the tensor's holder has it."""
    odd = 3 * 2**20 // 4 + 100_000
    built = Built(lambda: nn.Linear(1, odd), lambda *_: Inputs((torch.randn(2, 1),)), lambda out, _: out.sum())
    result = estimate(built, Variant("v"), "cuda", "T4")
    assert result.by_category["rounding"] > 0
    assert sum(result.by_category.values()) == result.allocated_bytes


@pytest.mark.parametrize(("gpu", "dtype"), [("A100", torch.bfloat16), ("T4", torch.float16)])
def test_the_model_finds_the_gpu_that_it_is_estimated_for(gpu: str, dtype: torch.dtype) -> None:
    class Asks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cuda()
            width = 64 if torch.cuda.is_available() and torch.cuda.device_count() else 1
            self.layer = nn.Linear(64, width, dtype=torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.half)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            torch.cuda.synchronize()
            with torch.random.fork_rng():
                return self.layer(x.to(torch.device("cuda"), self.layer.weight.dtype))

    before = torch.cuda.is_available()
    built = Built(Asks, lambda *_: Inputs((torch.randn(2, 64),)), lambda out, _: out.float().sum())
    log = simulate(built, Variant("v"), "cuda", gpu).log
    parameters = [one for one in log.allocations if one.category == "parameters"]
    assert sum(one.bytes for one in parameters) == 65 * 64 * dtype.itemsize
    assert torch.cuda.is_available() == before
