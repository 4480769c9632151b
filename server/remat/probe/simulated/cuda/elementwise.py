"""Operators that torch builds from others on the CPU and runs as one kernel on CUDA."""

from __future__ import annotations

import torch


def dropout(tensor: torch.Tensor, p: float, train: bool) -> torch.Tensor:  # noqa: FBT001 -- torch's signature
    """ATen/native/Dropout.cpp (torch 1.11 to 2.13): on CUDA `native_dropout`, whose mask has one byte a value."""
    if not train or p == 0 or tensor.numel() == 0:
        return tensor
    return torch.native_dropout(tensor, p, train=True)[0] if p < 1 else tensor * 0


def softmax(tensor: torch.Tensor, dim: int, dtype: torch.dtype | None = None) -> torch.Tensor:
    """ATen/native/SoftMax.cpp (torch 1.5 to 2.13): fp16 to fp32 is one kernel, without an fp32 copy of the input."""
    if tensor.dtype == torch.float16 and dtype == torch.float32:
        return torch._softmax(tensor, dim, half_to_float=True)
    return torch._softmax(tensor if dtype is None else tensor.to(dtype), dim, half_to_float=False)


def log_softmax(tensor: torch.Tensor, dim: int, dtype: torch.dtype | None = None) -> torch.Tensor:
    if tensor.dtype == torch.float16 and dtype == torch.float32:
        return torch._log_softmax(tensor, dim, half_to_float=True)
    return torch._log_softmax(tensor if dtype is None else tensor.to(dtype), dim, half_to_float=False)
