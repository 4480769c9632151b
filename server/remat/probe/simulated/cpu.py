"""What CPU kernels take and give back while they run, found with torch's profiler (torch 2.13, oneDNN 3, AVX2)."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, TypeAlias, cast

import torch

from remat.probe.simulated.cpu_convolutions import CONVOLUTIONS, convolution_scratch
from remat.probe.simulated.kernels import on_pages, row_of, soft_margin_backward, unreduced

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from remat.probe.simulated.trace import Trace

Scratch: TypeAlias = "tuple[int, int]"
"""bytes alive before the results are there, and beside them"""
_NONE: Scratch = (0, 0)


def cpu_scratch(assume: Callable[[str], None]) -> Callable[[str, Sequence[object], object], Scratch]:
    """What an operator takes, by its name, arguments and result; `assume` is told what is not known for sure."""

    def scratch(name: str, args: Sequence[object], out: object) -> Scratch:
        if name in CONVOLUTIONS:
            return convolution_scratch(name, args, out, assume)
        kind = _SCRATCH.get(name)
        return _NONE if kind is None else kind(args, out)

    return scratch


@contextlib.contextmanager
def cpu_effects(trace: Trace) -> Iterator[None]:
    """Inside it the fake CPU takes what the real one takes."""
    trace.scratch = cpu_scratch(trace.assume)
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


_SCRATCH: dict[str, Callable[[Sequence[object], object], Scratch]] = {
    "native_batch_norm_backward": _norm_backward,
    "mkldnn_rnn_layer": _rnn,
    "mkldnn_rnn_layer_backward": _rnn_backward,
    "mse_loss": unreduced,
    "smooth_l1_loss": unreduced,
    "huber_loss": unreduced,
    "soft_margin_loss_backward": soft_margin_backward,
    "_safe_softmax": _safe_softmax,
    "_softmax": _softmax,
    "_log_softmax": _softmax,
    "_softmax_backward_data": _softmax,
    "_log_softmax_backward_data": _softmax,
}
