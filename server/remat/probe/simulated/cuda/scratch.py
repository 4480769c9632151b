"""What CUDA kernels take and give back while they run, and the workspaces they keep."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, cast

import torch

from remat.probe.simulated.cuda.architecture import workspace_bytes
from remat.probe.simulated.kernels import soft_margin_backward, unreduced

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from remat.probe.simulated.cuda.architecture import Capability
    from remat.probe.simulated.trace import Trace

Scratch: TypeAlias = "tuple[int, int]"
"""bytes alive before the results are there, and beside them"""
_PRODUCTS = frozenset({"mm", "addmm", "bmm", "baddbmm", "addbmm", "mv", "dot", "_grouped_mm"})
_HALF = (torch.float16, torch.bfloat16)


def cuda_scratch(name: str, args: tuple[object, ...], out: object) -> Scratch:
    """Of the operator `name`."""
    kind = _SCRATCH.get(name)
    return (0, 0) if kind is None else kind(args, out)


def workspaces(trace: Trace, generation: Capability) -> Callable[[str], None]:
    """Of cuBLAS on a GPU of this generation; they stay.

    cuBLAS has a handle, and torch gives it a workspace, for each thread: the user's and autograd's. A product asks for
    its handle when its result is allocated (ATen/native/cuda/Blas.cpp, `addmm_out_cuda_impl` and `bmm_out_cuda_impl`;
    ATen/cuda/CublasHandlePool.cpp, `getCurrentCUDABlasHandle`), and the workspace then takes the smallest free block
    that holds it: before the result, it would take the one that the result fits in.
    """
    threads: set[bool] = set()

    def take(name: str) -> None:
        if name.removeprefix("aten::") in _PRODUCTS and (trace.phase == "backward") not in threads:
            threads.add(trace.phase == "backward")
            trace.allocate(workspace_bytes(generation), "cublas", "workspaces")

    return take


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _softmax_backward(args: Sequence[object], _out: object) -> Scratch:
    """`grad * output` (ATen/native/cuda/SoftMax.cu, torch 1.11 to 2.13); log_softmax needs none."""
    return 0, _bytes(cast("torch.Tensor", args[0]))


def _flash_backward(args: Sequence[object], _out: object) -> Scratch:
    """flash_attn/flash_api.cpp `mha_bwd` (torch 2.2 to 2.13): an fp32 dq, one number a row, and where key and value
    have fewer heads, their gradients for every head.
    """
    query, key, _value = (cast("torch.Tensor", item) for item in args[1:4])
    batch, heads, rows, width = query.shape
    wide = _up(width, 32) if width <= 128 else _up(width, 64)
    accumulated = batch * heads * _up(rows, 128) * (wide + 1) * 4
    grouped = key.size(1) != heads
    return 0, accumulated + (batch * heads * key.size(2) * width * key.element_size() * 2 if grouped else 0)


def _efficient_backward(args: Sequence[object], _out: object) -> Scratch:
    """mem_eff_attention/kernel_backward.h `workspace_size` (torch 2.2 to 2.13): an fp32 dq in tiles of 64 by 64, and
    one number a row.
    """
    query = cast("torch.Tensor", args[1])
    batch, heads, rows, width = query.shape
    return 0, batch * heads * (_up(rows, 64) * _up(width, 64) + _up(rows, 32)) * 4


def _transform(args: Sequence[object], out: object) -> Scratch:
    """A plan's work area (ATen/native/cuda/SpectralOps.cpp, `_exec_fft`), in the best case that cuFFT's documentation
    gives: one complex number for each of the signal.
    """
    signal = max(cast("torch.Tensor", args[0]), cast("torch.Tensor", out), key=torch.Tensor.numel)
    return 0, signal.numel() * (signal.element_size() if signal.is_complex() else 2 * signal.element_size())


def _up(value: int, multiple: int) -> int:
    return (value + multiple - 1) // multiple * multiple


_SCRATCH: dict[str, Callable[[Sequence[object], object], Scratch]] = {
    "_softmax_backward_data": _softmax_backward,
    "_scaled_dot_product_flash_attention_backward": _flash_backward,
    "_scaled_dot_product_efficient_attention_backward": _efficient_backward,
    "mse_loss": unreduced,
    "smooth_l1_loss": unreduced,
    "huber_loss": unreduced,
    "soft_margin_loss_backward": soft_margin_backward,
    "_fft_c2c": _transform,
    "_fft_r2c": _transform,
    "_fft_c2r": _transform,
}
