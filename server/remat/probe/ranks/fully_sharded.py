"""FSDP2: `fully_shard` as a user calls it, and what it does to memory behind the dispatcher's back.

It frees and takes the gathered parameters by resizing their storages, works on streams of its own (each of which has
its own pool in CUDA's allocator), and asks fakes for the shapes of whole tensors that no rank holds.
Source: torch/distributed/fsdp/_fully_shard (read in torch 2.7 and 2.13).
"""

from __future__ import annotations

import contextlib
import importlib
from functools import wraps
from typing import TYPE_CHECKING, cast

import torch

from remat.probe.simulated.blocks import repeated_blocks
from remat.probe.simulated.variants import CannotApplyError, dtype_of
from remat.probe.target.building import outside

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from torch import nn

    from remat.probe.messages import Variant
    from remat.probe.simulated.trace import Trace
    from remat.probe.target.calls import Callee

COMMUNICATION = "communication"
"""the category of gathered parameters and of the buffers that are sent and received"""
_INTERNALS = "torch.distributed.fsdp._fully_shard."
_AT_WORK = ("unshard", "wait_for_unshard", "post_backward")
_SHAPES = ("_propagate_tensor_meta_non_cached", "_propagate_tensor_meta")
"""of ShardingPropagator: where it asks for the shape of a result, in newer and in older torch"""


def shard(model: nn.Module, variant: Variant, device_type: str = "cpu") -> None:
    """Shards each repeated block and then the model over all ranks, with torch's defaults; fakes are on "cpu".

    Raises `CannotApplyError`.
    """
    fsdp = _fsdp()
    if any(is_sharded(part) for part in model.modules()):
        raise CannotApplyError("the code calls fully_shard itself: leave --sharding out, and --world-size as it is")
    meshes = importlib.import_module("torch.distributed.device_mesh")
    settings: dict[str, object] = {"mesh": meshes.init_device_mesh(device_type, (variant.world_size,))}
    if variant.autocast is not None:
        low = dtype_of(variant.autocast)
        settings["mp_policy"] = fsdp.MixedPrecisionPolicy(param_dtype=low, reduce_dtype=torch.float32)
    for name in repeated_blocks(model):
        fsdp.fully_shard(model.get_submodule(name), **settings)
    fsdp.fully_shard(model, **settings)


def is_sharded(module: nn.Module) -> bool:
    return any(kind.__name__ == "FSDPModule" for kind in type(module).__mro__)


def _fsdp() -> ModuleType:
    fsdp = importlib.import_module("torch.distributed.fsdp")
    if not hasattr(fsdp, "fully_shard"):
        raise CannotApplyError(
            f"torch {torch.__version__} has no torch.distributed.fsdp.fully_shard (torch >= 2.6 has)"
        )
    return fsdp


@contextlib.contextmanager
def followed(trace: Trace) -> Iterator[None]:
    """Inside it `trace` sees what `fully_shard` takes and gives back, and on which stream."""
    _fsdp()
    inner = importlib.import_module(f"{_INTERNALS}_fsdp_param")
    group = importlib.import_module(f"{_INTERNALS}_fsdp_param_group").FSDPParamGroup
    sharding = importlib.import_module("torch.distributed.tensor._sharding_prop").ShardingPropagator
    shapes = next(name for name in _SHAPES if hasattr(sharding, name))
    trace.wrapper = importlib.import_module("torch.distributed.tensor").DTensor
    streams = torch.cpu.StreamContext
    with contextlib.ExitStack() as undo:
        for where, name, value in (
            (torch.UntypedStorage, "resize_", _seen_by(trace, torch.UntypedStorage.resize_)),
            (sharding, shapes, _apart(getattr(sharding, shapes))),
            (inner, "_chunk_with_empty", _Chunks),
            (streams, "__enter__", _on_its_stream(trace, streams.__enter__)),
            (streams, "__exit__", _on_its_stream(trace, streams.__exit__)),
            *((group, name, _communicating(trace, getattr(group, name))) for name in _AT_WORK),
        ):
            undo.callback(setattr, where, name, getattr(where, name))
            setattr(where, name, value)
        yield


def _seen_by(trace: Trace, resize: Callee[object]) -> Callee[object]:
    def resize_(*args: object, **kwargs: object) -> object:
        out = resize(*args, **kwargs)
        trace.resized(cast("torch.UntypedStorage", args[0]))
        return out

    return resize_


def _apart(propagate: Callee[object]) -> Callee[object]:
    """Shapes are found on whole tensors, in a fake world that is not ours: they would count as taken."""

    @wraps(propagate)
    def run(*args: object, **kwargs: object) -> object:
        with outside():
            return propagate(*args, **kwargs)

    return run


def _communicating(trace: Trace, work: Callee[object]) -> Callee[object]:
    @wraps(work)
    def run(*args: object, **kwargs: object) -> object:
        kept, trace.doing = trace.doing, COMMUNICATION
        try:
            return work(*args, **kwargs)
        finally:
            trace.doing = kept

    return run


def _on_its_stream(trace: Trace, change: Callee[object]) -> Callee[object]:
    """Streams of the CPU stand for CUDA's: they do nothing, but code that works on both devices enters them."""

    @wraps(change)
    def run(*args: object, **kwargs: object) -> object:
        out = change(*args, **kwargs)
        now = torch.cpu.current_stream()
        trace.stream = 0 if now is torch.cpu._default_cpu_stream else id(now)
        return out

    return run


class _Chunks:
    """`torch.chunk` of a parameter, of which only two chunks are looked at: 1,024 views each take a minute."""

    def __init__(self, tensor: torch.Tensor, number: int, dim: int) -> None:
        self._tensor, self._dim = tensor, dim
        self._each = -(-tensor.size(dim) // number)

    def __getitem__(self, index: int) -> torch.Tensor:
        size = self._tensor.size(self._dim)
        start = min(index * self._each, size)
        return self._tensor.narrow(self._dim, start, min(self._each, size - start))


def groups_of(module: nn.Module) -> list[object]:
    """The parameter groups that `fully_shard` made of one module; none where it was not called."""
    if not is_sharded(module):
        return []
    state = cast("nn.Module", module)._get_fsdp_state()
    several = getattr(state, "_fsdp_param_groups", None)  # torch >= 2.12
    if several is None:
        several = [state._fsdp_param_group] if state._fsdp_param_group is not None else []
    return list(several)
