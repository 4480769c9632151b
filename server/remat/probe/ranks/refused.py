"""Ways to train on several ranks that are not estimated: said by name, never guessed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from remat.probe.ranks.fully_sharded import groups_of, is_sharded
from remat.probe.ranks.shards import local_of
from remat.probe.variants import CannotApplyError

if TYPE_CHECKING:
    from torch import nn

_BY_CLASS = {
    "FullyShardedDataParallel": "FullyShardedDataParallel (FSDP1)",
    "DeepSpeedEngine": "DeepSpeed (ZeRO)",
    "PipelineEngine": "DeepSpeed's pipeline parallelism",
    "PipelineModule": "DeepSpeed's pipeline parallelism",
    "PipelineStage": "pipeline parallelism",
    "FullyShardedDataParallelPlugin": "FullyShardedDataParallel (FSDP1)",
}


def refuse(model: nn.Module) -> None:
    """Raises `CannotApplyError` for a model that is made for several ranks in a way that is not estimated."""
    for part in model.modules():
        for kind in type(part).__mro__:
            if kind.__name__ in _BY_CLASS:
                raise _unsupported(_BY_CLASS[kind.__name__])
        for group in groups_of(part):
            if type(group.offload_policy).__name__ == "CPUOffloadPolicy":  # type: ignore[attr-defined]
                raise _unsupported("fully_shard with CPUOffloadPolicy")
            if any(parameter.is_dtensor for parameter in group.fsdp_params):  # type: ignore[attr-defined]
                raise _unsupported("fully_shard on top of tensor parallelism")
    if not any(is_sharded(part) for part in model.modules()):
        for name, parameter in model.named_parameters():
            if local_of(parameter) is not parameter:
                raise _unsupported(f"tensor parallelism ({name} is a DTensor)")


def _unsupported(what: str) -> CannotApplyError:
    return CannotApplyError(
        f"the code uses {what}, which is not supported: estimates are for fully_shard (FSDP2) and "
        "DistributedDataParallel"
    )
