"""The common operators on fake tensors without the detours that `FakeTensorMode` takes for the rare ones.

Its dispatch costs some 100 microseconds an operator: cache keys, device checks, constants. An 8B model has 100,000
operators in two steps. Where all tensors are plain fakes on the one device, the meta kernel alone gives the answer;
a test compares both ways on every model of the truth suite.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, cast

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, in_kernel_invocation_manager

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TypeAlias

    _Shaped: TypeAlias = tuple[tuple[int, ...], tuple[int, ...], torch.dtype]

_VIEWS = """
    view.default _unsafe_view.default t.default transpose.int permute.default expand.default slice.Tensor select.int
    unsqueeze.default squeeze.dim detach.default alias.default split.Tensor split_with_sizes.default unbind.int
    add_.Tensor mul_.Tensor
""".split()
_FRESH = """
    add.Tensor mul.Tensor sub.Tensor div.Tensor neg.default pow.Tensor_Scalar rsqrt.default mean.dim mean.default
    sum.dim_IntList add.Scalar mul.Scalar div.Scalar sqrt.default
    mm.default bmm.default addmm.default silu.default silu_backward.default gelu.default gelu_backward.default
    relu.default threshold_backward.default tanh.default tanh_backward.default sigmoid.default cos.default sin.default
    cat.default clone.default _to_copy.default native_dropout.default native_dropout_backward.default
    native_layer_norm.default native_layer_norm_backward.default
    _softmax.default _softmax_backward_data.default
    _scaled_dot_product_flash_attention.default _scaled_dot_product_flash_attention_backward.default
    _scaled_dot_product_efficient_attention.default _scaled_dot_product_efficient_attention_backward.default
    slice_backward.default select_backward.default zeros_like.default ones_like.default empty_like.default
    _log_softmax.default _log_softmax_backward_data.default embedding.default _safe_softmax.default
""".split()


def _operators(names: Iterable[str]) -> frozenset[object]:
    parts = [name.partition(".") for name in names]
    found = (getattr(getattr(torch.ops.aten, packet, None), overload, None) for packet, _, overload in parts)
    return frozenset(operator for operator in found if operator is not None)


_FILLED = "uniform_.default normal_.default fill_.Scalar zero_.default".split()
_MADE_OF_SIZES = "empty.memory_format ones.default zeros.default full.default".split()
_SHARING = _operators(_VIEWS)
"""operators whose results may share their arguments' storage"""
_MAKING = _operators(_FRESH)
_FACTORIES = _operators(_MADE_OF_SIZES)
_FILLING = _operators(_FILLED)
"""operators that write values into their first argument and return it"""
_CPU = torch.device("cpu")
_META = torch.device("meta")
_guard = getattr(torch._C, "_set_throw_on_mutable_data_ptr", None)
"""makes a fake's data pointer an error, where torch has it"""
_ITEM = torch.ops.aten._local_scalar_dense.default
_ON_LISTS = {torch.ops.aten._foreach_sqrt.default: torch.ops.aten.sqrt.default}
_MOST_KNOWN = 8192
_known: dict[object, _Made] = {}
"""what operators make of arguments like these: layers repeat, and Python's meta kernels take a while each"""


def run_quickly(
    mode: FakeTensorMode, func: torch._ops.OpOverload, args: tuple[object, ...], kwargs: dict[str, object]
) -> object:
    """The fake result of `func`, or NotImplemented where only `FakeTensorMode` knows it."""
    if func in _MAKING:
        return _remembered(mode, func, args, kwargs)
    if func in _SHARING:
        plain = _likeness(args) is not None and (not kwargs or _likeness(kwargs.values()) is not None)
        return _run(mode, func, args, kwargs) if plain else NotImplemented
    if func in _FACTORIES:
        return _remembered(mode, func, args, {**kwargs, "device": kwargs.get("device") or _CPU})
    if func in _FILLING:
        return args[0] if _likeness(args[:1]) is not None else NotImplemented
    return _of_optimizer(mode, func, args, kwargs)


def _remembered(
    mode: FakeTensorMode, func: torch._ops.OpOverload, args: tuple[object, ...], kwargs: dict[str, object]
) -> object:
    if (device := kwargs.get("device")) is not None:
        if device != _CPU or kwargs.get("pin_memory"):
            return NotImplemented
        kwargs = {**kwargs, "device": _META}  # the meta kernel would make a real tensor on the CPU
    like, named = _likeness(args), _likeness(kwargs.values()) if kwargs else ()
    if like is None or named is None:
        return NotImplemented
    key = func, like, tuple(kwargs), named, torch.get_default_dtype()
    try:
        made = _known.get(key)
    except TypeError:  # something that has no hash
        return _run(mode, func, args, kwargs)
    if made is not None:
        return _again(mode, made)
    out = _run(mode, func, args, kwargs)
    if (made := _made(out)) is not None:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        _known[key] = made
    return out


def _of_optimizer(
    mode: FakeTensorMode, func: torch._ops.OpOverload, args: tuple[object, ...], kwargs: dict[str, object]
) -> object:
    """What an optimizer asks of all parameters at once, or of the count of its steps."""
    if _returns_nothing(func):  # no shape changes, and nothing is there to compute
        return NotImplemented if _likeness(args) is None else None
    if func in _ON_LISTS and len(args) == 1 and not kwargs:
        return _one_by_one(mode, _ON_LISTS[func], args[0])
    if func is _ITEM and getattr(args[0], "constant", None) is not None:
        return _value(args[0])
    return NotImplemented


def _one_by_one(mode: FakeTensorMode, func: torch._ops.OpOverload, items: object) -> object:
    """The results of `func`, which has one argument, for a list of tensors."""
    if not isinstance(items, list):
        return NotImplemented
    out = [run_quickly(mode, func, (item,), {}) for item in items]
    return NotImplemented if any(one is NotImplemented for one in out) else out


def _value(made_of_a_number: object) -> object:
    constant = cast("FakeTensor", made_of_a_number).constant
    with torch._C._DisableTorchDispatch():
        return cast("torch.Tensor", constant).item()


@cache
def _returns_nothing(func: torch._ops.OpOverload) -> bool:
    name = func._schema.name
    return name.startswith("aten::_foreach_") and name.endswith("_") and not func._schema.returns


def _run(
    mode: FakeTensorMode, func: torch._ops.OpOverload, args: tuple[object, ...], kwargs: dict[str, object]
) -> object:
    with in_kernel_invocation_manager(mode):
        out = func(*args, **kwargs)
    return _wrapped(mode, out)


def _likeness(items: Iterable[object]) -> tuple[object, ...] | None:
    """What a result's shape depends on; None where a tensor is no plain fake."""
    like: list[object] = []
    for item in items:
        if isinstance(item, torch.Tensor):
            if type(item) is not FakeTensor or item.constant is not None or item.layout is not torch.strided:
                return None
            if item.fake_device != _CPU:
                return None
            like.append((item.shape, item.stride(), item.dtype))
        elif isinstance(item, (list, tuple)):
            inner = _likeness(item)
            if inner is None:
                return None
            like.append(inner)
        else:
            like.append((type(item), item))  # 1, 1.0 and True are equal, and make different tensors
    return tuple(like)


def _wrapped(mode: FakeTensorMode, out: object) -> object:
    if isinstance(out, FakeTensor):
        return out
    if isinstance(out, torch.Tensor):
        return _fake(mode, out)
    if isinstance(out, (list, tuple)):
        return type(out)(_wrapped(mode, item) for item in out)
    return out


_attributes: dict[str, object] = {}
"""what the constructor sets on every fake beside its mode, one by one and slowly: always the same"""


def _fake(mode: FakeTensorMode, meta: torch.Tensor) -> FakeTensor:
    """`FakeTensor(mode, meta, cpu)`, four times as fast."""
    if not _attributes:
        first = FakeTensor(mode, meta, _CPU)
        _attributes.update({name: value for name, value in vars(first).items() if value is not mode})
        return first
    fake = torch.Tensor._make_subclass(
        FakeTensor, meta, meta.requires_grad, dispatch_device=True, device_for_backend_keys=_CPU
    )
    if _guard is not None:
        _guard(fake)
    vars(fake).update(_attributes, fake_mode=mode)
    return fake


@dataclass(frozen=True, slots=True)
class _Made:
    """A result: tensors by shape, stride and dtype, what is no tensor as it is."""

    parts: tuple[_Shaped | int | None, ...]
    single: bool


def _made(out: object) -> _Made | None:
    """How to make `out` anew; None where its tensors do not each fill a storage of their own."""
    parts = out if isinstance(out, tuple) else (out,)
    shapes = [_filling(part) if isinstance(part, torch.Tensor) else part for part in parts]
    told = all(isinstance(part, (torch.Tensor, int, type(None))) for part in parts)
    told &= not any(isinstance(part, torch.Tensor) and shape is None for part, shape in zip(parts, shapes, strict=True))
    storages = [part.untyped_storage()._cdata for part in parts if isinstance(part, torch.Tensor)]
    if not told or len({*storages}) < len(storages):
        return None
    return _Made(tuple(shapes), not isinstance(out, tuple))


def _filling(tensor: torch.Tensor) -> _Shaped | None:
    shape, stride = tuple(tensor.shape), tensor.stride()
    last = sum((size - 1) * step for size, step in zip(shape, stride, strict=True))
    elements = last + 1 if tensor.numel() else 0
    fills = tensor.storage_offset() == 0 and tensor.untyped_storage().nbytes() == elements * tensor.dtype.itemsize
    return (shape, stride, tensor.dtype) if fills else None


def _again(mode: FakeTensorMode, made: _Made) -> object:
    with torch._C._DisableTorchDispatch():
        parts = [
            torch.empty_strided(part[0], part[1], dtype=part[2], device="meta") if isinstance(part, tuple) else part
            for part in made.parts
        ]
    out = tuple(_fake(mode, part) if isinstance(part, torch.Tensor) else part for part in parts)
    return out[0] if made.single else out
