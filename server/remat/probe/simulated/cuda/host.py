"""Tensors that a model puts into host memory while its step is simulated for a GPU, and what comes back of them.

All fakes lie on one device, so that `x.to(y.device)` can't say which is meant: what is followed is what is explicit,
`.cpu()`, `.to("cpu")`, pinned memory and `save_on_cpu` (torch.distributed's `offload_wrapper` is one).
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, cast

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remat.probe.simulated.trace import Trace
    from remat.probe.target.calls import Callee

_SAVING = "save_on_cpu"


@contextlib.contextmanager
def host_memory(trace: Trace) -> Iterator[None]:
    """Inside it what is put into host memory does not count, and what comes back does."""
    kept_start = save_on_cpu.__init__
    methods = {name: getattr(torch.Tensor, name) for name in ("cpu", "cuda", "to")}
    save_on_cpu.__init__ = _saving(trace)
    torch.Tensor.cpu = _cpu(trace, methods["cpu"])
    torch.Tensor.cuda = _cuda(trace, methods["cuda"])
    torch.Tensor.to = _to(trace, methods["to"])
    try:
        yield
    finally:
        save_on_cpu.__init__ = kept_start
        for name, was in methods.items():
            setattr(torch.Tensor, name, was)


def _saving(trace: Trace) -> object:
    """`save_on_cpu.__init__`: torch's own asks the tensor for its device, which is the same for all fakes."""

    def start(self: save_on_cpu, pin_memory: bool = False, device_type: str = "cuda") -> None:  # noqa: FBT001, FBT002 -- torch's signature
        del device_type
        layout = torch.contiguous_format if pin_memory else torch.preserve_format

        def pack(tensor: torch.Tensor) -> tuple[bool, torch.Tensor]:
            was_there = trace.host.holds(tensor)
            if was_there and not pin_memory:
                return was_there, tensor
            with torch.no_grad(), trace.host.side(on_host=True, reason=_SAVING):
                copy = tensor.clone(memory_format=layout)
            if (
                not was_there and copy.stride() != tensor.stride()
            ):  # a copy in one piece is sent (ATen/native/cuda/Copy.cu)
                trace.passing(tensor.numel() * tensor.element_size(), "aten::copy_")
            return was_there, copy

        def unpack(packed: tuple[bool, torch.Tensor]) -> torch.Tensor:
            was_there, tensor = packed
            if was_there:
                return tensor
            with torch.no_grad(), trace.host.side(on_host=False):
                return tensor.clone()

        saved_tensors_hooks.__init__(self, pack, unpack)

    return start


def _sent(trace: Trace, tensor: torch.Tensor, *, to_host: bool) -> torch.Tensor:
    return cast("torch.Tensor", _Sent.apply(tensor, trace, to_host))


class _Sent(torch.autograd.Function):
    """A copy in the other memory; its gradient comes back."""

    @staticmethod
    def forward(ctx: object, tensor: torch.Tensor, trace: Trace, to_host: bool) -> torch.Tensor:  # noqa: FBT001 -- torch's signature
        ctx.trace, ctx.to_host = trace, to_host  # type: ignore[attr-defined]
        with trace.host.side(on_host=to_host, reason=".cpu()"):
            return tensor.clone()

    @staticmethod
    def backward(ctx: object, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        trace, to_host = cast("Trace", ctx.trace), cast("bool", ctx.to_host)  # type: ignore[attr-defined]
        with trace.host.side(on_host=not to_host, reason=".cpu()"):
            return gradient.clone(), None, None


def _leaves(trace: Trace, tensor: object) -> bool:
    """Whether it is an activation on the GPU, or a mask. Other whole numbers stay: lengths and indices are small."""
    return (
        isinstance(tensor, FakeTensor)
        and tensor.constant is None
        and (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype in {torch.bool, torch.uint8})
        and trace.phase in {"forward", "backward"}
        and not trace.host.holds(tensor)
    )


def _cpu(trace: Trace, cpu: Callee[torch.Tensor]) -> Callee[torch.Tensor]:
    def to_host(*args: object, **kwargs: object) -> torch.Tensor:
        tensor = cast("torch.Tensor", args[0])
        return _sent(trace, tensor, to_host=True) if _leaves(trace, tensor) else cpu(*args, **kwargs)

    return to_host


def _cuda(trace: Trace, cuda: Callee[torch.Tensor]) -> Callee[torch.Tensor]:
    def to_gpu(*args: object, **kwargs: object) -> torch.Tensor:
        tensor = cast("torch.Tensor", args[0])
        return _sent(trace, tensor, to_host=False) if trace.host.holds(tensor) else cuda(*args, **kwargs)

    return to_gpu


def _to(trace: Trace, to: Callee[torch.Tensor]) -> Callee[torch.Tensor]:
    def sent(*args: object, **kwargs: object) -> torch.Tensor:
        out = to(*args, **kwargs)
        named = kwargs.get("device", args[1] if len(args) > 1 else kwargs.get("other"))
        if isinstance(named, str) and named.startswith("cpu"):
            return _sent(trace, out, to_host=True) if _leaves(trace, out) else out
        if not trace.host.holds(out) or named is None or isinstance(named, torch.dtype):
            return out
        stays = isinstance(named, torch.Tensor) and trace.host.holds(named)
        return out if stays else _sent(trace, out, to_host=False)

    return sent
