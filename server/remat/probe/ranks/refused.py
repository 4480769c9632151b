"""Ways to train on several ranks that are not estimated: said by name, never guessed."""

from __future__ import annotations

import contextlib
import importlib
import sys
from typing import TYPE_CHECKING

from remat.probe.simulated.variants import CannotApplyError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import nn

    from remat.probe.target.calls import Callee

_CLASSES = (
    ("torch.distributed.fsdp", "FullyShardedDataParallel", "FullyShardedDataParallel (FSDP1)"),
    ("torch.distributed.fsdp", "CPUOffloadPolicy", "fully_shard with CPUOffloadPolicy"),
    ("torch.distributed.optim", "ZeroRedundancyOptimizer", "ZeroRedundancyOptimizer (ZeRO)"),
    ("torch.distributed.pipelining", "PipelineStage", "pipeline parallelism"),
    ("deepspeed", "DeepSpeedEngine", "DeepSpeed (ZeRO)"),
)
"""of modules that are loaded by now"""
_FUNCTIONS = (
    ("torch.distributed.tensor.parallel", "parallelize_module", "tensor parallelism"),
    ("torch.distributed.tensor.experimental", "context_parallel", "context parallelism"),
)
_BY_CLASS = {
    "DeepSpeedEngine": "DeepSpeed (ZeRO)",
    "PipelineEngine": "DeepSpeed's pipeline parallelism",
    "PipelineModule": "DeepSpeed's pipeline parallelism",
}


@contextlib.contextmanager
def refusing() -> Iterator[None]:
    """Inside it code that makes such an object gets a `CannotApplyError` there."""
    with contextlib.ExitStack() as undo:
        for place, name, what in _CLASSES:
            kind = getattr(sys.modules.get(place), name, None)
            if kind is not None:
                undo.callback(setattr, kind, "__init__", kind.__init__)
                kind.__init__ = _refusal(what)
        yield


def refused_functions() -> Iterator[tuple[object, object]]:
    """The functions that such code calls, each with what it shall get instead."""
    for place, name, what in _FUNCTIONS:
        with contextlib.suppress(ImportError, AttributeError):  # torch < 2.4 has no context_parallel
            yield getattr(importlib.import_module(place), name), _refusal(what)


def refuse(model: nn.Module) -> None:
    """Raises `CannotApplyError` for a model that some library made for several ranks in such a way."""
    for part in model.modules():
        for kind in type(part).__mro__:
            if kind.__name__ in _BY_CLASS:
                raise _unsupported(_BY_CLASS[kind.__name__])


def _refusal(what: str) -> Callee[None]:
    def refuse_it(*_args: object, **_kwargs: object) -> None:
        raise _unsupported(what)

    return refuse_it


def _unsupported(what: str) -> CannotApplyError:
    return CannotApplyError(
        f"the code uses {what}, which is not supported: estimates are for fully_shard (FSDP2) and "
        "DistributedDataParallel"
    )
