"""What convolutions take on a CPU beside their results: tried where that is cheap, else by oneDNN's usual layouts."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import torch

from remat.probe.simulated.tried import peak

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from remat.probe.target.calls import Callee

_aten = torch.ops.aten
_NOT_TRIED = (
    "convolutions that are too large to try take the scratch memory of oneDNN's plain kernels for AVX2: "
    "those with dilation, groups, three dimensions or transposed may take more or less"
)
CONVOLUTIONS = ("convolution", "convolution_backward")


def convolution_scratch(
    name: str, args: Sequence[object], out: object, assume: Callable[[str], None]
) -> tuple[int, int]:
    """Bytes alive before the results are there, and beside them."""
    forward = name == "convolution"
    image, weight = cast("tuple[torch.Tensor, torch.Tensor]", args[:2] if forward else args[1:3])
    if not forward and out == (None, None, None):
        return 0, 0
    how = args[3:7] if forward else args[4:8]
    rule = _convolution if forward else _convolution_backward
    if _has_columns(image, weight, *how):  # slow enough to take minutes
        return rule(args, out)
    func = _aten.convolution.default if forward else _aten.convolution_backward.default
    stride, transposed = cast("list[int]", how[0])[0], how[3]
    spread = image if transposed else cast("torch.Tensor", out if forward else args[0])
    of_image, of_result = (1, stride) if transposed else (stride, 1)
    steps = (of_image,) if forward else (of_result, of_image)
    work = spread.numel() * weight[0].numel() * len(steps)
    most = peak(cast("Callee[object]", func), args, steps, work)
    if most is not None:
        return most, 0
    assume(_NOT_TRIED)
    return rule(args, out)


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _blocked(tensor: torch.Tensor, dim: int = 1) -> int:
    """Bytes in oneDNN's layout, which fills channels up to whole vectors."""
    block = 16 if torch.backends.cpu.get_cpu_capability().startswith("AVX512") else 8
    channels = tensor.size(dim)
    return _bytes(tensor) // max(channels, 1) * ((channels + block - 1) // block * block)


def _is_reordered(image: torch.Tensor, weight: torch.Tensor) -> bool:
    """OneDNN computes plain fp32 layouts in its own; 1x1 kernels and channels_last stay as they are."""
    is_point = all(size == 1 for size in weight.shape[2:])
    return image.dtype == torch.float32 and not is_point and image.is_contiguous()


def _has_columns(image: torch.Tensor, weight: torch.Tensor, *how: object) -> bool:
    """Half precision that the CPU has no instructions for: the plain kernel writes every patch out, as a column."""
    stride, padding, dilation, transposed = cast("tuple[list[int], list[int], list[int], bool]", how)
    if transposed or image.dim() != 4 or max(dilation) > 1 or image.dtype not in _SUPPORTED:
        return False
    is_plain_product = max(*weight.shape[2:], *stride) == 1 and max(padding) == 0
    return not is_plain_product and not _SUPPORTED[image.dtype]()


def _columns(image: torch.Tensor, weight: torch.Tensor, result: torch.Tensor) -> int:
    return image.size(0) * weight[0].numel() * result.size(2) * result.size(3) * image.element_size()


def _convolution(args: Sequence[object], out: object) -> tuple[int, int]:
    image, weight = cast("torch.Tensor", args[0]), cast("torch.Tensor", args[1])
    result = cast("torch.Tensor", out)
    if _has_columns(image, weight, *args[3:7]):
        return _columns(image, weight, result), 0
    if args[6] or not _is_reordered(image, weight):  # transposed
        return 0, 0
    first = _blocked(image) if image.size(1) >= 8 else 0
    return first + _blocked(weight, 0) + _blocked(result), _blocked(result)


def _convolution_backward(args: Sequence[object], out: object) -> tuple[int, int]:
    gradient, image, weight = (cast("torch.Tensor", item) for item in args[:3])
    if _has_columns(image, weight, *args[4:8]):
        return 0, _columns(image, weight, gradient)
    if args[7] or not _is_reordered(image, weight):
        return 0, 0
    grad_input, grad_weight, _ = cast("tuple[torch.Tensor | None, ...]", out)
    parts = _blocked(gradient) + _blocked(weight, 0)
    for_input = parts + _blocked(image)
    for_weight = parts + (_blocked(image) if image.size(1) >= 8 else 0)
    return for_input if grad_input is not None else 0, for_weight - _bytes(weight) if grad_weight is not None else 0


_SUPPORTED: dict[torch.dtype, Callable[[], bool]] = {
    torch.bfloat16: lambda: bool(torch.ops.mkldnn._is_mkldnn_bf16_supported()),
    torch.float16: lambda: bool(torch.ops.mkldnn._is_mkldnn_fp16_supported()),
}
