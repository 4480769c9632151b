"""The variants of one request: those that differ in their optimizer alone share their forward and backward passes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from remat.probe.batch.sizes import Sizes, noting_sizes
from remat.probe.messages import AS_WRITTEN
from remat.probe.simulated.estimate import side_by_side

if TYPE_CHECKING:
    from collections.abc import Sequence

    from remat.probe.built import Built
    from remat.probe.messages import Device, Variant
    from remat.probe.simulated.result import Traced


@dataclass(frozen=True, slots=True)
class Simulated:
    """What `simulate` saw of one variant, and what the target says of the batch that it had."""

    traced: Traced
    sizes: Sizes
    notes: tuple[str, ...]


class Together:
    """Simulates variants one by one, in the order they are asked for, and at once those that share the work."""

    def __init__(self, variants: Sequence[Variant]) -> None:
        self._expected = variants
        self._known: dict[Variant, Simulated] = {}

    def simulate(self, built: Built, variant: Variant, device: Device, gpu: str | None) -> Simulated:
        """Raises what `estimate` does."""
        known = self._known.pop(variant, None)
        if known is not None:
            return known
        group = [variant, *(other for other in self._expected if other != variant and _share(built, variant, other))]
        try:
            (first, *others) = _simulated(built, group, device, gpu)
        except Exception:
            if len(group) == 1:
                raise
            (first, *others) = _simulated(built, [variant], device, gpu)  # what one raises is not the others' fault
        self._known.update(zip(group[1:], others, strict=False))
        return first


def _simulated(built: Built, group: list[Variant], device: Device, gpu: str | None) -> list[Simulated]:
    sizes = Sizes()
    optimizers = tuple(variant.optimizer for variant in group)
    all_traced = side_by_side(noting_sizes(built, sizes), group[0], optimizers, device, gpu)
    notes = built.notes()
    return [Simulated(traced, sizes, notes) for traced in all_traced]


def _share(built: Built, one: Variant, other: Variant) -> bool:
    """Whether they differ in their optimizer alone, and neither is the user's, which may reach into the model."""
    if replace(one, name="", optimizer="") != replace(other, name="", optimizer=""):
        return False
    names = {one.optimizer, other.optimizer}
    return len(names) == 2 and "none" not in names and (AS_WRITTEN not in names or built.make_optimizer is None)
