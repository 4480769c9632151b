"""The common operators on fake tensors without the detours that `FakeTensorMode` takes for the rare ones.

Its dispatch costs some 100 microseconds an operator: cache keys, device checks, constants. An 8B model has 100,000
operators in two steps. Where all tensors are plain fakes on the one device, the meta kernel alone gives the answer;
a test compares both ways on every model of the truth suite.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, in_kernel_invocation_manager

if TYPE_CHECKING:
    from collections.abc import Iterable

_NAMES = """
    view.default _unsafe_view.default t.default transpose.int permute.default expand.default slice.Tensor select.int
    unsqueeze.default squeeze.dim detach.default alias.default split.Tensor split_with_sizes.default unbind.int
    add.Tensor mul.Tensor sub.Tensor div.Tensor neg.default pow.Tensor_Scalar rsqrt.default mean.dim mean.default
    sum.dim_IntList add.Scalar mul.Scalar div.Scalar sqrt.default add_.Tensor mul_.Tensor
    mm.default bmm.default addmm.default silu.default silu_backward.default gelu.default gelu_backward.default
    relu.default threshold_backward.default tanh.default tanh_backward.default sigmoid.default cos.default sin.default
    cat.default clone.default _to_copy.default native_dropout.default native_dropout_backward.default
    native_layer_norm.default native_layer_norm_backward.default
    _softmax.default _softmax_backward_data.default
    _scaled_dot_product_flash_attention.default _scaled_dot_product_flash_attention_backward.default
    _scaled_dot_product_efficient_attention.default _scaled_dot_product_efficient_attention_backward.default
    slice_backward.default select_backward.default
""".split()


def _operator(name: str) -> object:
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet, None), overload, None)


_QUICK = frozenset(found for found in map(_operator, _NAMES) if found is not None)
_CPU = torch.device("cpu")


def run_quickly(
    mode: FakeTensorMode, func: torch._ops.OpOverload, args: tuple[object, ...], kwargs: dict[str, object]
) -> object:
    """The fake result of `func`, or NotImplemented where only `FakeTensorMode` knows it."""
    if func not in _QUICK or not _are_plain(args) or (kwargs and not _are_plain(kwargs.values())):
        return NotImplemented
    if kwargs.get("device") is not None:  # where `_to_copy` goes: the meta kernel would make a real tensor there
        kwargs = {name: value for name, value in kwargs.items() if name != "device"}
    with in_kernel_invocation_manager(mode):
        out = func(*args, **kwargs)
    return _wrapped(mode, out)


def _are_plain(items: Iterable[object]) -> bool:
    for item in items:
        if isinstance(item, torch.Tensor):
            if type(item) is not FakeTensor or item.constant is not None:
                return False
        elif isinstance(item, (list, tuple)) and not _are_plain(item):
            return False
    return True


def _wrapped(mode: FakeTensorMode, out: object) -> object:
    if isinstance(out, FakeTensor):
        return out
    if isinstance(out, torch.Tensor):
        return FakeTensor(mode, out, _CPU)
    if isinstance(out, (list, tuple)):
        return type(out)(_wrapped(mode, item) for item in out)
    return out
