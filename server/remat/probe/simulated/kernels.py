"""Operators whose fake form does not say what the real kernel allocates, or does not run at all."""

from __future__ import annotations

import contextlib
import math
from typing import TYPE_CHECKING, cast

import torch
from torch._decomp import decompositions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    StandIn = Callable[[Sequence[object], dict[str, object]], object]

_aten = torch.ops.aten


def grouped_product(args: Sequence[object], kwargs: dict[str, object]) -> object:
    """`_grouped_mm` for any dtype: its meta function (torch 2.8 to 2.13) takes bf16 only, the CPU kernel takes all."""
    first, second = cast("torch.Tensor", args[0]), cast("torch.Tensor", args[1])
    offsets = cast("torch.Tensor", args[2] if len(args) > 2 else kwargs.get("offs"))
    groups = () if first.dim() + second.dim() == 5 or offsets is None else (offsets.numel(),)
    if first.dim() == 3 and second.dim() == 3:
        groups = (first.size(0),)
    dtype = cast("torch.dtype", kwargs.get("out_dtype") or first.dtype)
    return first.new_empty((*groups, first.size(-2), second.size(-1)), dtype=dtype)


@contextlib.contextmanager
def whole_recurrent_layers() -> Iterator[None]:
    """Inside it fake LSTMs run layer by layer, as oneDNN's and cuDNN's do.

    Fakes (torch 2.1 to 2.13) would run them step by step wherever gradients are wanted.
    """
    kept = getattr(decompositions, "use_mkldnn", None)
    if kept is None:
        yield
        return
    decompositions.use_mkldnn = lambda layer, hx, params: kept(layer.detach(), hx, params)
    try:
        yield
    finally:
        decompositions.use_mkldnn = kept


def mkldnn_rnn(args: Sequence[object], kwargs: dict[str, object]) -> object:
    """OneDNN's LSTM layer: the meta function (torch 2.0 to 2.13) leaves its workspace empty."""
    out = _aten.mkldnn_rnn_layer.default(*args, **kwargs)
    if not args[15]:  # inference needs none
        return out
    layer, gates = cast("torch.Tensor", args[0]), cast("torch.Tensor", args[1])
    length, batch, width = layer.shape
    size = rnn_workspace(length, batch, width, gates.size(0), cast("int", args[10]))
    return (*out[:3], layer.new_empty((size,), dtype=torch.uint8))


def mkldnn_rnn_backward(args: Sequence[object], kwargs: dict[str, object]) -> object:
    """Both biases have one gradient; the cache of fakes (torch 2.2 to 2.13) gives each its own after the first call."""
    out = _aten.mkldnn_rnn_layer_backward.default(*args, **kwargs)
    return (*out[:4], out[3], *out[5:])


def reduced_in_place(loss: str) -> StandIn:
    """A loss whose mean or sum takes the place of its values, in a storage as large as they were.

    ATen/native/Loss.cpp and cuda/Loss.cu (torch 1.9 to 2.13): the result is made for all values, then made smaller.
    """
    operator = getattr(_aten, loss).default

    def run(args: Sequence[object], kwargs: dict[str, object]) -> object:
        out = cast("torch.Tensor", operator(*args, **kwargs))
        return out if out.dim() else out.new_empty((_values(args),)).as_strided((), ())

    return run


def unreduced(args: Sequence[object], out: object) -> tuple[int, int]:
    """The values of such a loss, beside what it is to become, as a kernel's scratch (torch 1.9 to 2.13)."""
    scalar = cast("torch.Tensor", out)
    return 0, 0 if scalar.dim() else _values(args) * scalar.element_size()


def soft_margin_backward(args: Sequence[object], out: object) -> tuple[int, int]:
    """Two products and an exponential before the result, one beside it (ATen/native/Loss.cpp, torch 1.9 to 2.13)."""
    gradient = cast("torch.Tensor", out)
    size = _values(args[1:]) * gradient.element_size()
    return 3 * size, size


def _values(args: Sequence[object]) -> int:
    given, target = cast("tuple[torch.Tensor, torch.Tensor]", args[:2])
    return math.prod(torch.broadcast_shapes(given.shape, target.shape))


def rnn_workspace(length: int, batch: int, width: int, gates: int, hidden: int) -> int:
    """Bytes that oneDNN 3 keeps of one fp32 layer for its backward; the parts agree with the library for 19 shapes.

    oneDNN's cpu/rnn/rnn_utils: the gates of each step, states before and after the layer, for one step more than the
    sequence has (three as wide as input or output, two as the output), and one state of each step.
    """
    states = 2 * (length + 1) * batch
    wide = states * row_of(max(width, hidden))
    parts = (length * batch * row_of(gates), wide, wide, wide, states * hidden, states * hidden)
    return sum(on_pages(part * 4) for part in (*parts, length * batch * row_of(hidden)))


def row_of(values: int, size: int = 4) -> int:
    """Values that a row of so many takes: whole cache lines, and no multiple of 256 (rnn_utils.hpp, `get_good_ld`)."""
    row = -(-values * size // 64) * 64 // size
    return row if row % 256 else row + 64 // size


def on_pages(size: int) -> int:
    return -(-size // 4096) * 4096


STAND_INS: dict[str, StandIn] = {
    "aten::_grouped_mm": grouped_product,
    "aten::mkldnn_rnn_layer": mkldnn_rnn,
    "aten::mkldnn_rnn_layer_backward": mkldnn_rnn_backward,
    "aten::mse_loss": reduced_in_place("mse_loss"),
    "aten::smooth_l1_loss": reduced_in_place("smooth_l1_loss"),
    "aten::soft_margin_loss": reduced_in_place("soft_margin_loss"),
    "aten::binary_cross_entropy": reduced_in_place("binary_cross_entropy"),
}
