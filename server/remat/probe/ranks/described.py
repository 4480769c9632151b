"""What an estimate of one rank takes for granted, in sentences."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from remat.probe.ranks.fully_sharded import groups_of, is_sharded
from remat.probe.simulated.modules import class_name, pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch
    from torch import nn

    from remat.probe.messages import Device, Variant
    from remat.probe.ranks.data_parallel import Buckets


@dataclass(frozen=True, slots=True)
class _Group:
    """Parameters that are gathered together."""

    place: str
    class_name: str
    after_forward: str
    mesh: str
    """how many ranks replicate times how many shard; empty where all shard"""
    low: torch.dtype | None
    reduced: torch.dtype | None


def assumptions(model: nn.Module, variant: Variant, buckets: Buckets | None, device: Device) -> Iterator[str]:
    size = cast("int", variant.world_size)
    yield f"the figures are of rank 0 of {size}; a batch is that of one rank"
    groups = list(_groups(model))
    if groups:
        yield from _sharded(groups, variant)
        yield _ahead(model)
        yield from _uneven(model)
    elif buckets is not None:
        beside = "are views of them" if buckets.are_gradients else "live beside them (gradient_as_bucket_view=False)"
        of = " and ".join(f"{limit / 2**20:g} MiB" for limit in buckets.limits)
        yield f"DistributedDataParallel keeps buckets of {of}; gradients {beside}"
    else:
        yield (
            "nothing that was made here shards or wraps the model (--sharding fsdp2 or ddp would): what ranks send "
            "each other is not counted"
        )
    if device == "cuda" and size > 1:
        yield "process memory counts 544 MiB to 1.6 GiB that NCCL takes for one group, outside of torch's allocator"
    elif device == "cpu" and (groups or buckets is not None):
        yield "what gloo takes while it sends is not counted"


def _groups(model: nn.Module) -> Iterator[_Group]:
    for name, module in model.named_modules():
        for group in groups_of(module):
            policy = group.mp_policy  # type: ignore[attr-defined]
            yield _Group(
                pattern(name) or "the model itself",
                class_name(module),
                _after_forward(group.mesh_info, group.post_forward_mesh_info),  # type: ignore[attr-defined]
                _mesh(group.mesh_info.mesh.shape),  # type: ignore[attr-defined]
                policy.param_dtype,
                policy.reduce_dtype,
            )


def _precision(group: _Group) -> str:
    gathered = f", in {_name(group.low)}" if group.low is not None else ""
    return f"{gathered}; gradients are reduced in {_name(group.reduced)}" if group.reduced is not None else gathered


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _ahead(model: nn.Module) -> str:
    """What is gathered before it is needed."""
    states = [part._get_fsdp_state() for part in model.modules() if is_sharded(part)]
    if any(state._states_to_forward_prefetch or state._states_to_backward_prefetch for state in states):
        return "groups are gathered ahead as the code sets it"
    return "the next group is gathered ahead in backward, none is in forward (torch's default)"


def _after_forward(mesh: object, later: object) -> str:
    if later is None:
        return "gathered once for forward and backward, as reshard_after_forward is off there"
    if later is mesh or later == mesh:
        return "gathered for forward and again for backward"
    return f"gathered for forward, kept in {later.shard_mesh_size} parts, and gathered again for backward"  # type: ignore[attr-defined]


def _mesh(shape: tuple[int, ...]) -> str:
    return f" over {' x '.join(map(str, shape))} ranks" if len(shape) > 1 else ""


def _sharded(groups: list[_Group], variant: Variant) -> Iterator[str]:
    by = "--sharding fsdp2" if variant.sharding == "fsdp2" else "the code"
    for group, count in Counter(groups).items():
        times = f"{count} times " if count > 1 else ""
        where = f"{group.place} ({group.class_name}){group.mesh}"
        yield f"{by} calls fully_shard {times}on {where}: {group.after_forward}{_precision(group)}"
    if variant.sharding == "fsdp2" and not any("*" in group.place for group in groups):
        yield "no repeated blocks were found, so all parameters are gathered at once"
    if variant.sharding == "fsdp2" and variant.autocast is not None:
        yield (
            f"MixedPrecisionPolicy(param_dtype={variant.autocast}, reduce_dtype=fp32) stands for autocast, as is usual "
            "with fully_shard"
        )
    yield "parameters are sharded before they come to the device: no rank ever holds the whole model there"


def _uneven(model: nn.Module) -> Iterator[str]:
    """Shards are padded to rank 0's, optimizer state is not: the last ranks have less of it."""
    parameters = [p for module in model.modules() for group in groups_of(module) for p in group.fsdp_params]  # type: ignore[attr-defined]
    short = [p for p in parameters if p._orig_size[p.fsdp_placement.dim] % p.mesh_info.shard_mesh_size]
    if not short:
        return
    size = short[0].mesh_info.shard_mesh_size
    missing = sum(p.sharded_size.numel() - _last(p._orig_size, size) for p in short if p.sharded_param.requires_grad)
    yield (
        f"{len(short)} of {len(parameters)} parameters do not divide by {size}: shards are padded to those of rank 0, "
        f"which needs most; the last rank keeps optimizer state for {missing:,} values fewer"
    )


def _last(shape: torch.Size, size: int) -> int:
    """Values of the last rank's shard: of `torch.chunk`, which may have fewer chunks than asked for."""
    rows = -(-shape[0] // size)
    return max(0, shape[0] - rows * (size - 1)) * shape[1:].numel()
