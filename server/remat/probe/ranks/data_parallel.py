"""DDP: the buckets in which it sends gradients, without its reducer, which needs real tensors.

Source: torch/nn/parallel/distributed.py and torch/csrc/distributed/c10d/reducer.cpp (torch 1.13 to 2.13): one bucket of
all gradients for the first step, then buckets of 1 and 25 MiB in the order in which gradients came; they are taken when
the model is wrapped and stay; gradients are copied into them and, unless they are views of them, live beside them.
"""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from remat.probe.ranks.fully_sharded import COMMUNICATION
from remat.probe.simulated.variants import CannotApplyError

if TYPE_CHECKING:
    from remat.probe.simulated.trace import Trace

WRAPPED_TWICE = "the code wraps the model in DistributedDataParallel itself: leave --sharding out"
_MIB = 2**20
_AT_ONCE = 250 * _MIB
"""bytes of parameters or buffers that are sent together when all ranks shall have rank 0's"""
_IN_FLIGHT = 2


@dataclass(slots=True)
class Buckets:
    """Of one wrapped model."""

    parameters: list[nn.Parameter]
    limits: list[int]
    """bytes of the first bucket and of all further ones"""
    are_gradients: bool
    """gradients are views of the buckets"""
    stay: bool
    """parameters may be left out of a step: no order is learnt, and buckets stay as they were made"""
    tensors: list[torch.Tensor] = field(default_factory=list)
    views: dict[int, torch.Tensor] = field(default_factory=dict)
    """by the parameter's place"""
    order: dict[int, None] = field(default_factory=dict)
    """places of parameters as their gradients came in the first backward"""
    is_rebuilt: bool = False


class Wrapped:
    """The models that are wrapped now, and their buckets."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._buckets: WeakKeyDictionary[nn.Module, Buckets] = WeakKeyDictionary()

    def buckets(self, model: nn.Module) -> Buckets | None:
        return self._buckets.get(model)

    def wrap(self, model: nn.Module, settings: dict[str, object]) -> nn.Module:
        """What `DistributedDataParallel(model, **settings)` takes is taken from here on."""
        if model in self._buckets:
            raise CannotApplyError(WRAPPED_TWICE)
        parameters = [p for p in dict.fromkeys(model.parameters()) if p.requires_grad]
        if not parameters:
            raise CannotApplyError("DistributedDataParallel needs a parameter that requires a gradient; all are frozen")
        buckets = Buckets(
            parameters,
            _limits(settings.get("bucket_cap_mb")),
            are_gradients=bool(settings.get("gradient_as_bucket_view")),
            stay=bool(settings.get("find_unused_parameters")) and not settings.get("static_graph"),
        )
        self._buckets[model] = buckets
        sends = settings.get("forward_sync_buffers", settings.get("broadcast_buffers", True))
        self._start(model, buckets, sends_buffers=sends is not False)
        # Scripts write model.module and model.no_sync(); neither may make the model a child of itself.
        object.__setattr__(model, "module", model)
        object.__setattr__(model, "no_sync", contextlib.nullcontext)
        return model

    def _start(self, model: nn.Module, buckets: Buckets, *, sends_buffers: bool) -> None:
        limits = buckets.limits if buckets.stay else [sys.maxsize]
        _fill(buckets, list(range(len(buckets.parameters))), limits, backwards=True)
        for place, parameter in enumerate(buckets.parameters):
            parameter.register_post_accumulate_grad_hook(lambda p, place=place: _arrived(buckets, place, p))

        def before(_model: nn.Module, _args: object) -> None:
            if buckets.order and not buckets.is_rebuilt and not buckets.stay and torch.is_grad_enabled():
                _rebuild(buckets, self._trace)
            if sends_buffers:
                self._send(list(model.buffers()))

        model.register_forward_pre_hook(before, prepend=True)

    def track(self, model: nn.Module) -> None:
        """Tells the trace, which knows the model, what wrapping it took."""
        buckets = self._buckets.get(model)
        if buckets is not None:
            self._send([*model.parameters(), *model.buffers()])
            for tensor in buckets.tensors:
                self._trace.track(tensor, "bucket", COMMUNICATION)

    def _send(self, tensors: list[torch.Tensor]) -> None:
        """Copies go out in one piece for each 250 MiB; two are on their way at a time."""
        sent: list[int] = []
        for places in _assigned(tensors, [_AT_ONCE]):
            if len(sent) == _IN_FLIGHT:
                self._trace.free(sent.pop(0))
            sent.append(
                self._trace.allocate(sum(map(_bytes, (tensors[p] for p in places))), "broadcast", COMMUNICATION)
            )
        for index in sent:
            self._trace.free(index)


def wrapper(wrapped: Wrapped) -> tuple[object, object]:
    """`DistributedDataParallel`, and what stands for it: the model itself, with buckets; nothing else takes memory."""

    class Wrapping:
        def __new__(cls, module: nn.Module, *args: object, **kwargs: object) -> nn.Module:
            return wrapped.wrap(module, dict(zip(_POSITIONS, args, strict=False)) | kwargs)

    return DistributedDataParallel, Wrapping


def _limits(cap: object) -> list[int]:
    """The first bucket is small so that sending begins early, unless the user gives a size for all."""
    return [int(cap * _MIB)] if isinstance(cap, int | float) else [_MIB, 25 * _MIB]


_POSITIONS = (
    "device_ids", "output_device", "dim", "broadcast_buffers", "init_sync", "process_group", "bucket_cap_mb",
    "find_unused_parameters", "check_reduction", "gradient_as_bucket_view", "static_graph",
)  # fmt: skip


def _fill(buckets: Buckets, order: list[int], limits: list[int], *, backwards: bool = False) -> None:
    """Makes the buckets for the parameters in this order; a parameter's gradient has a place in one of them."""
    ordered = [buckets.parameters[place] for place in order]
    groups = _assigned(ordered, limits)
    buckets.tensors, buckets.views = [], {}
    for group in reversed(groups) if backwards else groups:
        members = [(order[index], ordered[index]) for index in group]
        flat = torch.empty(sum(p.numel() for _, p in members), dtype=members[0][1].dtype)
        buckets.tensors.append(flat)
        start = 0
        for place, parameter in members:
            buckets.views[place] = flat[start : start + parameter.numel()].view(parameter.shape)
            start += parameter.numel()


def _rebuild(buckets: Buckets, trace: Trace) -> None:
    missing = [place for place in range(len(buckets.parameters)) if place not in buckets.order]
    kept, trace.doing = trace.doing, COMMUNICATION
    try:
        _fill(buckets, [*buckets.order, *missing], buckets.limits)
    finally:
        trace.doing = kept
    buckets.is_rebuilt = True


def _arrived(buckets: Buckets, place: int, parameter: nn.Parameter) -> None:
    if not buckets.is_rebuilt:
        buckets.order[place] = None
    if buckets.are_gradients and parameter.grad is not None:
        parameter.grad = buckets.views[place]


def _assigned(tensors: list[torch.Tensor] | list[nn.Parameter], limits: list[int]) -> list[list[int]]:
    """Places of tensors, bucket by bucket: one is full when it reaches its limit, the last limit is of all further."""
    groups: list[list[int]] = []
    open_: dict[torch.dtype, tuple[list[int], int]] = {}
    used: dict[torch.dtype, int] = {}
    for place, tensor in enumerate(tensors):
        members, size = open_.get(tensor.dtype, ([], 0))
        members.append(place)
        size += _bytes(tensor)
        limit = limits[min(used.get(tensor.dtype, 0), len(limits) - 1)]
        if size < limit:
            open_[tensor.dtype] = (members, size)
            continue
        groups.append(members)
        open_.pop(tensor.dtype, None)
        used[tensor.dtype] = used.get(tensor.dtype, 0) + 1
    groups += [members for members, _ in open_.values()]
    return sorted(groups, key=min)


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()
