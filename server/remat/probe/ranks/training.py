"""What training on several ranks means for one estimate: what is put around the model, what is taken, what is said."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from remat.probe.ranks import data_parallel, fully_sharded
from remat.probe.ranks.described import assumptions
from remat.probe.ranks.refused import refuse, refused_functions, refusing
from remat.probe.ranks.world import asking_for_their_number, pretended_ranks
from remat.probe.simulated.lenient import Assumed
from remat.probe.simulated.variants import CannotApplyError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import nn

    from remat.probe.messages import Device, Variant
    from remat.probe.simulated.trace import Trace


@dataclass(frozen=True, slots=True)
class Ranks:
    """A process that trains alone, or one rank of many."""

    variant: Variant
    """as the loop runs it"""
    asked: Variant
    trace: Trace
    device: Device
    wrapped: data_parallel.Wrapped | None
    """None: it trains alone"""

    def place(self, model: nn.Module) -> None:
        """Shards or wraps the model as the variant says. Raises `CannotApplyError`."""
        if self.wrapped is None:
            return
        refuse(model)
        if self.asked.sharding == "fsdp2":
            fully_sharded.shard(model, self.asked)
        elif self.asked.sharding == "ddp":
            self.wrapped.wrap(model, {})

    def track(self, model: nn.Module) -> None:
        """Tells the trace, which knows the model, what else was taken before the first step."""
        if self.wrapped is not None:
            self.wrapped.track(model)

    def tell(self, model: nn.Module) -> None:
        """Notes what was taken for granted; the steps are over."""
        if self.wrapped is not None and self.asked.world_size is not None:
            for text in assumptions(model, self.asked, self.wrapped.buckets(model), self.device):
                self.trace.log.assumed[Assumed(text, None)] = 1


@contextlib.contextmanager
def ranks_of(variant: Variant, trace: Trace, device: Device) -> Iterator[Ranks]:
    """The world that the variant trains in. Enter it before the fake one. Raises `CannotApplyError`."""
    if variant.world_size is None:
        if variant.sharding != "none":
            raise CannotApplyError(f"sharding {variant.sharding} needs the number of ranks: --world-size N")
        with asking_for_their_number():
            yield Ranks(variant, variant, trace, device, None)
        return
    if variant.sharding not in {"none", "ddp", "fsdp2"}:
        raise CannotApplyError(f"expected sharding none, ddp or fsdp2, got {variant.sharding!r}")
    wrapped = data_parallel.Wrapped(trace)
    with (
        fully_sharded.followed(trace),
        refusing(),
        pretended_ranks(variant.world_size, data_parallel.wrapper(wrapped), *refused_functions()),
    ):
        yield Ranks(as_run(variant), variant, trace, device, wrapped)


def as_run(variant: Variant) -> Variant:
    """Where parameters are gathered in low precision, autocast has nothing left to do."""
    return replace(variant, autocast=None) if variant.sharding == "fsdp2" else variant
