"""Operators whose fake form does not say what the real kernel allocates, or does not run at all."""

from __future__ import annotations

import contextlib
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
    layer = cast("torch.Tensor", args[0])
    hidden = cast("int", args[10])
    return (*out[:3], layer.new_empty((_rnn_workspace(layer.shape, hidden, args),), dtype=torch.uint8))


def _rnn_workspace(shape: Sequence[int], hidden: int, args: Sequence[object]) -> int:
    """The library is asked for two short sequences; the workspace grows evenly with the length."""
    length, batch, width = shape
    gates = cast("torch.Tensor", args[1]).size(0)
    sizes = []
    with torch.utils._python_dispatch._disable_current_modes(), torch.enable_grad():
        for short in (4, 8):
            weights = (
                torch.zeros(gates, width, requires_grad=True),
                torch.zeros(gates, hidden),
                torch.zeros(gates),
                torch.zeros(gates),
            )
            start = torch.zeros(batch, hidden), torch.zeros(batch, hidden)
            out = _aten.mkldnn_rnn_layer.default(torch.zeros(short, batch, width), *weights, *start, *args[7:])
            sizes.append(out[3].numel())
    return sizes[0] + (sizes[1] - sizes[0]) * (length - 4) // 4


STAND_INS: dict[str, StandIn] = {
    "aten::_grouped_mm": grouped_product,
    "aten::mkldnn_rnn_layer": mkldnn_rnn,
}
