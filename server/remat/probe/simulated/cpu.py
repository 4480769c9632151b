"""What CPU kernels take and give back while they run, found with torch's profiler (torch 2.13, oneDNN 3, AVX2)."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, TypeAlias, cast

import torch

from remat.probe.simulated.kernels import on_pages, row_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from remat.probe.simulated.trace import Trace

Scratch: TypeAlias = "tuple[int, int]"
"""bytes alive before the results are there, and beside them"""
_NONE: Scratch = (0, 0)


def cpu_scratch(name: str, args: Sequence[object], out: object) -> Scratch:
    """Of the operator `name`."""
    kind = _SCRATCH.get(name)
    return _NONE if kind is None else kind(args, out)


@contextlib.contextmanager
def cpu_effects(trace: Trace) -> Iterator[None]:
    """Inside it the fake CPU takes what the real one takes."""
    trace.scratch = cpu_scratch
    with generator_states(trace):
        yield


@contextlib.contextmanager
def generator_states(trace: Trace) -> Iterator[None]:
    """Inside it the trace sees what each checkpoint keeps of the generator: 5,056 bytes that no operator makes."""
    kept = torch.get_rng_state

    def tracked_state() -> torch.Tensor:
        state = kept()
        trace.track(state, "rng_state")
        return state

    torch.get_rng_state = tracked_state
    try:
        yield
    finally:
        torch.get_rng_state = kept


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


def _convolution(args: Sequence[object], out: object) -> Scratch:
    image, weight = cast("torch.Tensor", args[0]), cast("torch.Tensor", args[1])
    result = cast("torch.Tensor", out)
    if _has_columns(image, weight, *args[3:7]):
        return _columns(image, weight, result), 0
    if args[6] or not _is_reordered(image, weight):  # transposed
        return _NONE
    first = _blocked(image) if image.size(1) >= 8 else 0
    return first + _blocked(weight, 0) + _blocked(result), _blocked(result)


def _convolution_backward(args: Sequence[object], out: object) -> Scratch:
    gradient, image, weight = (cast("torch.Tensor", item) for item in args[:3])
    if _has_columns(image, weight, *args[4:8]):
        return 0, _columns(image, weight, gradient)
    if args[7] or not _is_reordered(image, weight):
        return _NONE
    grad_input, grad_weight, _ = cast("tuple[torch.Tensor | None, ...]", out)
    parts = _blocked(gradient) + _blocked(weight, 0)
    for_input = parts + _blocked(image)
    for_weight = parts + (_blocked(image) if image.size(1) >= 8 else 0)
    return for_input if grad_input is not None else 0, for_weight - _bytes(weight) if grad_weight is not None else 0


def _norm_backward(args: Sequence[object], _out: object) -> Scratch:
    return 0, _bytes(cast("torch.Tensor", args[0]))


def _rnn_scratchpad(layer: torch.Tensor, states: torch.Tensor) -> int:
    """The gates of all steps, twice the state of one, and a page and a bit of others; so for 19 shapes."""
    length, batch, _ = layer.shape
    gates, hidden = states.shape
    size = layer.element_size()
    state = on_pages(batch * row_of(hidden, size) * size)
    return on_pages(length * batch * row_of(gates, size) * size) + 2 * state + 4096 + 568


def _rnn(args: Sequence[object], _out: object) -> Scratch:
    """Both weights in oneDNN's layout, the sum of the biases, and the library's scratchpad."""
    layer, width, states = (cast("torch.Tensor", item) for item in args[:3])
    size = layer.element_size()
    rows = width.size(1) + states.size(1)
    weights = rows * row_of(states.size(0), size) * size
    return 0, weights + states.size(0) * size + _rnn_scratchpad(layer, states)


def _rnn_backward(args: Sequence[object], out: object) -> Scratch:
    """The same for the gradients of weights and biases; the sum of the biases; the weights themselves, where their rows
    are no whole cache lines; zeros for gradients of the last states that nobody needs (ATen/native/mkldnn/RNN.cpp).
    """
    layer, *weights = (cast("torch.Tensor", item) for item in args[:3])
    gradient = cast("torch.Tensor | None", args[10])
    again = 0 if gradient is None or gradient.is_contiguous() else _bytes(gradient)
    again += sum(_bytes(cast("torch.Tensor", args[5])) for last in args[11:13] if last is None)
    again += _bytes(cast("torch.Tensor", args[3]))
    size = layer.element_size()
    reordered = [weight.size(0) * row_of(weight.size(1), size) * size for weight in weights]
    longer = sum(wide for wide, weight in zip(reordered, weights, strict=True) if wide > _bytes(weight))
    return 0, again + longer + _rnn(args, out)[1]


def _softmax(args: Sequence[object], _out: object) -> Scratch:
    """The kernel copies an input that doesn't lie in one piece, such as `cross_entropy(out.transpose(1, 2), ...)`."""
    given = cast("torch.Tensor", args[0])
    return 0, 0 if given.is_contiguous() else _bytes(given)


def _safe_softmax(_args: Sequence[object], out: object) -> Scratch:
    return 0, cast("torch.Tensor", out).numel()


_SUPPORTED: dict[torch.dtype, Callable[[], bool]] = {
    torch.bfloat16: lambda: bool(torch.ops.mkldnn._is_mkldnn_bf16_supported()),
    torch.float16: lambda: bool(torch.ops.mkldnn._is_mkldnn_fp16_supported()),
}
_SCRATCH: dict[str, Callable[[Sequence[object], object], Scratch]] = {
    "convolution": _convolution,
    "convolution_backward": _convolution_backward,
    "native_batch_norm_backward": _norm_backward,
    "mkldnn_rnn_layer": _rnn,
    "mkldnn_rnn_layer_backward": _rnn_backward,
    "_safe_softmax": _safe_softmax,
    "_softmax": _softmax,
    "_log_softmax": _softmax,
    "_softmax_backward_data": _softmax,
    "_log_softmax_backward_data": _softmax,
}
