"""The variants of one request: those that differ in their optimizer alone share their forward and backward passes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from remat.probe.batch.sizes import Sizes, noting_sizes
from remat.probe.built import FactMissingError
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
        self._expected = list(variants)
        self._known: dict[Variant, Simulated] = {}

    def simulate(self, built: Built, variant: Variant, device: Device, gpu: str | None) -> Simulated:
        """Raises what `estimate` does."""
        known = self._known.pop(variant, None)
        if known is not None:
            return known
        group = [variant, *(other for other in self._expected if other != variant and _share(built, variant, other))]
        self._expected = [other for other in self._expected if other not in group]
        found = _if_all_can(built, group, device, gpu) if len(group) > 1 else None
        if found is None:  # what one of them raises is not the others' fault
            return _simulated(built, [variant], device, gpu)[0]
        self._known.update(zip(group[1:], found[1:], strict=True))
        return found[0]


def _if_all_can(built: Built, group: list[Variant], device: Device, gpu: str | None) -> list[Simulated] | None:
    try:
        return _simulated(built, group, device, gpu)
    except (MemoryError, FactMissingError):
        raise
    except Exception:  # noqa: BLE001  (any code of the user's)
        return None


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
