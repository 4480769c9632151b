"""`torch.autocast("cuda")` in a world of CPU tensors: the CPU's autocast with CUDA's lists of operators.

Source: ATen/autocast_mode.h, AT_FORALL_FP32 and its likes (torch 2.0 to 2.13). What both devices run in the lower
precision (products, convolutions, attention) is the CPU's own.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import torch
from torch.utils._pytree import tree_map

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remat.probe.simulated.checkpoint_calls import Function

_IN_FP32 = """
    acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow softplus layer_norm group_norm
    native_layer_norm frobenius_norm nuclear_norm cosine_similarity poisson_nll_loss cosine_embedding_loss nll_loss
    nll_loss2d hinge_embedding_loss kl_div l1_loss smooth_l1_loss huber_loss mse_loss margin_ranking_loss
    multilabel_margin_loss soft_margin_loss triplet_margin_loss multi_margin_loss binary_cross_entropy_with_logits dist
    pdist cdist renorm logsumexp norm
""".split()
_RESULT_IN_FP32 = ("softmax", "log_softmax", "cumsum", "cumprod", "prod", "sum")
"""these are asked for an fp32 result and read their input as it is"""
_LOWER = (torch.float16, torch.bfloat16)


@contextlib.contextmanager
def autocast_as_on_cuda() -> Iterator[None]:
    """Inside it autocast for "cuda" works, and autocast casts as on CUDA."""
    library = torch.library.Library("aten", "IMPL")
    for name in _IN_FP32:
        for overload in _overloads(name):
            _implement(library, overload, _in_fp32(overload))
    for name in _RESULT_IN_FP32:
        for overload in _overloads(name):
            _implement(library, overload, _result_in_fp32(overload))
    original = torch.autocast.__init__

    def start(
        self: torch.autocast,
        device_type: str,
        dtype: torch.dtype | None = None,
        enabled: bool = True,  # noqa: FBT001, FBT002 -- torch's signature
        cache_enabled: bool | None = None,  # noqa: FBT001 -- torch's signature
    ) -> None:
        if device_type == "cuda":
            device_type, dtype = "cpu", dtype or torch.float16
        original(self, device_type, dtype, enabled, cache_enabled)

    torch.autocast.__init__ = start
    try:
        yield
    finally:
        torch.autocast.__init__ = original
        library._destroy()


def _overloads(name: str) -> list[torch._ops.OpOverload]:
    packet = getattr(torch.ops.aten, name, None)
    if packet is None:
        return []
    found = [getattr(packet, overload) for overload in packet.overloads()]
    return [one for one in found if "out" not in one._overloadname and "Dimname" not in str(one._schema)]


def _implement(library: torch.library.Library, overload: torch._ops.OpOverload, kernel: Function) -> None:
    library.impl(overload, kernel, "AutocastCPU")


def _without_autocast() -> contextlib.AbstractContextManager[object]:
    return torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU))


def _raised(item: object) -> object:
    return item.float() if isinstance(item, torch.Tensor) and item.dtype in _LOWER else item


def _in_fp32(overload: torch._ops.OpOverload) -> Function:
    def run(*args: object, **kwargs: object) -> object:
        args, kwargs = tree_map(_raised, (args, kwargs))
        with _without_autocast():
            return overload(*args, **kwargs)

    return run


def _result_in_fp32(overload: torch._ops.OpOverload) -> Function:
    takes_dtype = any(argument.name == "dtype" for argument in overload._schema.arguments)

    def run(*args: object, **kwargs: object) -> object:
        tensor = args[0]
        if (
            takes_dtype
            and isinstance(tensor, torch.Tensor)
            and tensor.dtype in _LOWER
            and _names_no_dtype(args, kwargs)
        ):
            kwargs = {**kwargs, "dtype": torch.float32}
        with _without_autocast():
            return overload(*args, **kwargs)

    return run


def _names_no_dtype(args: tuple[object, ...], kwargs: dict[str, object]) -> bool:
    return kwargs.get("dtype") is None and not any(isinstance(item, torch.dtype) for item in args)
