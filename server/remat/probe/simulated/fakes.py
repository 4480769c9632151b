"""What has to be set aside so that models build and run on fake tensors, each with its reason."""

from __future__ import annotations

import contextlib
import importlib
import sys
from functools import partial
from typing import TYPE_CHECKING, cast

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from remat.probe.simulated.alone import group_of_one
from remat.probe.simulated.few_values import knows_any, run_knowing
from remat.probe.simulated.quick import run_quickly

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from remat.probe.target.calls import Callee


class OneDevice(FakeTensorMode):
    """The world of fakes, in which `device="cuda"`, as users write it, is the device of all tensors."""

    def __torch_dispatch__(
        self,
        func: torch._ops.OpOverload,
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        device = kwargs.get("device") if kwargs else None
        if isinstance(device, torch.device) and device.type not in {"cpu", "meta"}:
            kwargs = {**(kwargs or {}), "device": _CPU}
        if knows_any(args):
            run = partial(super().__torch_dispatch__, func, types, args, kwargs)
            return run_knowing(self, run, func, args, kwargs or {})
        out = run_quickly(self, func, args, kwargs or {})
        return out if out is not NotImplemented else super().__torch_dispatch__(func, types, args, kwargs)


_CPU = torch.device("cpu")


@contextlib.contextmanager
def fake_friendly(assume: Callable[[str], None]) -> Iterator[None]:
    """Inside it models can be made and run under `FakeTensorMode`; `assume` is told what is left out."""
    with contextlib.ExitStack() as undo:
        undo.enter_context(group_of_one(assume))
        undo.callback(torch.set_default_dtype, torch.get_default_dtype())  # a script may set its own
        for where, name, value in _replacements(assume):
            undo.callback(setattr, where, name, getattr(where, name))
            setattr(where, name, value)
        yield


def _replacements(assume: Callable[[str], None]) -> Iterator[tuple[object, str, object]]:
    # torch 2.13: truncated normal draws again `while mask.any()`, a question fake tensors can't answer.
    if hasattr(nn.init, "_no_grad_trunc_normal_"):
        yield nn.init, "_no_grad_trunc_normal_", _unchanged
    # nn.Module._apply swaps tensors under fakes, which fails whenever something holds a weak reference (peft does).
    yield nn.Module, "to", _module_to
    yield nn.Module, "to_empty", _module_to_empty
    # A distribution asks its parameters whether they are valid: fakes have no values.
    yield torch.distributions.Distribution, "_validate_args", False
    # What a compiler would fuse can't be told from here.
    yield torch, "compile", _uncompiled(assume)
    yield nn.Module, "compile", lambda *_, **__: assume(_NOT_COMPILED)
    yield nn.Module, "cuda", _same_module
    yield nn.Module, "cpu", _same_module
    yield nn.Module, "half", lambda self: _module_to(self, torch.float16)
    yield nn.Module, "bfloat16", lambda self: _module_to(self, torch.bfloat16)
    yield nn.Module, "float", lambda self: _module_to(self, torch.float32)
    yield nn.Module, "double", lambda self: _module_to(self, torch.float64)
    yield torch.Tensor, "cuda", _same_tensor
    yield torch.Tensor, "to", _to_one_device(torch.Tensor.to)
    # It refuses tensors on the CPU, where fakes are; on one GPU it is a batch norm.
    yield nn.SyncBatchNorm, "convert_sync_batchnorm", classmethod(_as_it_is(assume))
    # `torch.cuda.LongTensor(n)`: the legacy types exist where CUDA does only.
    for name in ("Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte", "Bool"):
        yield torch.cuda, f"{name}Tensor", getattr(torch, f"{name}Tensor")
    # copy.deepcopy of a fake (nn.TransformerEncoder copies its layer) would copy the fake mode with it.
    yield torch.Tensor, "__deepcopy__", _deep_copy
    yield nn.Parameter, "__deepcopy__", _deep_copy
    yield FakeTensor, "__format__", _formatted
    yield torch.Tensor, "type", _typed(cast("Callee[object]", torch.Tensor.type))
    yield torch.Tensor, "split", _split_evenly(assume, cast("Callee[object]", torch.Tensor.split))
    # An array's values leave the world of tensors: lengths to pack by, masks, what is drawn into a picture.
    yield FakeTensor, "numpy", _zeros(assume)
    yield FakeTensor, "tolist", _listed(assume)


@contextlib.contextmanager
def plain_masks() -> Iterator[None]:
    """Inside it Hugging Face models make the masks they make outside of tracing. Enter it once the model is made.

    transformers >= 4.53 takes fakes for tracing, where it must assume packed sequences: it would build a full mask and
    lose flash attention and native grouped-query attention (29.1 instead of 26.6 GiB on an 8B model).
    """
    masks = None
    if "transformers" in sys.modules:
        with contextlib.suppress(ImportError):
            masks = importlib.import_module("transformers.masking_utils")
    kept = getattr(masks, "find_packed_sequence_indices", None)
    if kept is not None:
        masks.find_packed_sequence_indices = _nothing  # type: ignore[union-attr]
    try:
        yield
    finally:
        if kept is not None:
            masks.find_packed_sequence_indices = kept  # type: ignore[union-attr]


_NOT_COMPILED = "torch.compile is left out: the figures are those of the model run eagerly"


def _uncompiled(assume: Callable[[str], None]) -> object:
    def compile_(model: object = None, **_settings: object) -> object:
        assume(_NOT_COMPILED)
        return model if model is not None else lambda function: function

    return compile_


def _as_it_is(assume: Callable[[str], None]) -> Callee[object]:
    def convert_sync_batchnorm(*args: object, **kwargs: object) -> object:
        assume("batch norms are counted as those of one GPU, without what SyncBatchNorm gathers of the others")
        return args[1] if len(args) > 1 else kwargs["module"]

    return convert_sync_batchnorm


def _unchanged(tensor: torch.Tensor, *_args: object, **_kwargs: object) -> torch.Tensor:
    return tensor


def _nothing(*_args: object, **_kwargs: object) -> None:
    return None


def _same_module(self: nn.Module, *_args: object, **_kwargs: object) -> nn.Module:
    return self


def _same_tensor(self: torch.Tensor, *_args: object, **_kwargs: object) -> torch.Tensor:
    return self


def _to_one_device(to: Callee[torch.Tensor]) -> Callee[torch.Tensor]:
    """`Tensor.to` in a world of one device: `x.to("cuda", dtype)` is `x.to(dtype)`."""

    def to_dtype(*args: object, **kwargs: object) -> torch.Tensor:
        tensor, *rest = args
        if not _is_cuda(kwargs.get("device", rest[0] if rest else None)):
            return to(*args, **kwargs)
        left = rest if "device" in kwargs else rest[1:]
        named = {name: value for name, value in kwargs.items() if name != "device"}
        if not left and "dtype" not in named:
            left = [cast("torch.Tensor", tensor).dtype]
        return to(tensor, *left, **named)

    return to_dtype


def _is_cuda(device: object) -> bool:
    if isinstance(device, torch.device):
        return device.type == "cuda"
    return type(device) is int or (isinstance(device, str) and device.startswith("cuda"))


def _formatted(self: FakeTensor, how: str) -> str:
    """A single value in a text, as in the name of an expert."""
    return format(self.item() if self.dim() == 0 else repr(self), how)


def _typed(type_: Callee[object]) -> object:
    """`x.type(type(y))`: the class of all tensors stands for the default dtype."""

    def typed(self: torch.Tensor, kind: object = None, *args: object, **kwargs: object) -> object:
        of_all = isinstance(kind, type) and issubclass(kind, FakeTensor)
        return self.to(torch.get_default_dtype()) if of_all else type_(self, kind, *args, **kwargs)

    return typed


def _split_evenly(assume: Callable[[str], None], split: Callee[object]) -> object:
    def split_evenly(self: torch.Tensor, split_size: object, dim: int = 0) -> object:
        long, sizes = self.shape[dim], split_size
        of_values = isinstance(sizes, list | tuple) and len(sizes) > 0 and not any(sizes)
        if isinstance(self, FakeTensor) and of_values and long:
            parts = len(cast("list[int]", sizes))
            assume(f"{parts} parts whose sizes only data tells are taken to be even")
            sizes = [long // parts + (number < long % parts) for number in range(parts)]
        return split(self, sizes, dim)

    return split_evenly


def _zeros(assume: Callable[[str], None]) -> object:
    def numpy(self: FakeTensor, *_args: object, **_kwargs: object) -> object:
        if self.requires_grad:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
        counts = False
        if self.constant is None:
            counts = not self.is_floating_point() and not self.is_complex() and self.dtype != torch.bool
            assume(f"the values of an array (.numpy()) are taken to be {int(counts)}")  # what is counted is divided by
        with torch.utils._python_dispatch._disable_current_modes():
            if self.constant is not None:
                return self.constant.numpy()
            return torch.full(self.shape, counts, dtype=self.dtype).numpy()

    return numpy


def _listed(assume: Callable[[str], None]) -> object:
    """All values at once: torch asks a fake for one after the other."""

    def tolist(self: FakeTensor) -> object:
        if self.constant is None:
            assume("the values of a list (.tolist()) are taken to be 0")
        with torch.utils._python_dispatch._disable_current_modes():
            return (torch.zeros(self.shape, dtype=self.dtype) if self.constant is None else self.constant).tolist()

    return tolist


def _deep_copy(self: torch.Tensor, memo: dict[int, object]) -> object:
    if id(self) not in memo:
        with torch.no_grad():
            copy = self.detach().clone()
        is_parameter = isinstance(self, nn.Parameter)
        memo[id(self)] = nn.Parameter(copy, self.requires_grad) if is_parameter else copy
    return memo[id(self)]


def _module_to(self: nn.Module, *args: object, **kwargs: object) -> nn.Module:
    """`Module.to` in a world of one device: only the dtype matters."""
    named = [item for item in args if not isinstance(item, int)]  # `.to(rank)`, which needs that device
    _, dtype, _, _ = torch._C._nn._parse_to(*named, **kwargs) if named or kwargs else (None, None, False, None)
    if dtype is not None:
        cast_module(self, dtype, buffers=True)
    return self


def _module_to_empty(self: nn.Module, **_kwargs: object) -> nn.Module:
    """What was made on "meta", or is a part of what was, comes to the one device there is."""
    made: dict[int, nn.Parameter] = {}
    with torch.no_grad():
        for part in self.modules():
            for name, parameter in part._parameters.items():
                if parameter is None:
                    continue
                if id(parameter) not in made:
                    empty = torch.empty_like(parameter, device="cpu")
                    made[id(parameter)] = nn.Parameter(empty, requires_grad=parameter.requires_grad)
                part._parameters[name] = made[id(parameter)]
            for name, buffer in part._buffers.items():
                if buffer is not None:
                    part._buffers[name] = torch.empty_like(buffer, device="cpu")
    return self


def cast_module(module: nn.Module, dtype: torch.dtype, *, buffers: bool) -> None:
    """Floating parameters (shared ones stay shared) and, if wanted, buffers of `module` become `dtype`."""
    replaced: dict[int, nn.Parameter] = {}
    for part in module.modules():
        for name, parameter in part._parameters.items():
            if parameter is None or not parameter.is_floating_point() or parameter.dtype == dtype:
                continue
            if id(parameter) not in replaced:
                cast = parameter.detach().to(dtype)
                replaced[id(parameter)] = nn.Parameter(cast, requires_grad=parameter.requires_grad)
            part._parameters[name] = replaced[id(parameter)]
        for name, buffer in part._buffers.items() if buffers else ():
            if buffer is not None and buffer.is_floating_point():
                part._buffers[name] = buffer.to(dtype)
