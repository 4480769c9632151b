"""Which storages lie in host memory while all fakes say that they lie on the one device there is."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_SAID = {
    "save_on_cpu": "of saved activations lie in host memory (save_on_cpu)",
    ".cpu()": 'of activations are put into host memory (.cpu(), .to("cpu"), pinned memory)',
}
_OF_OTHERS = ".cpu()"


class Host:
    """What lies in host memory, by storage."""

    def __init__(self) -> None:
        self._held: dict[int, tuple[int, str]] = {}
        """bytes, and why"""
        self._most: dict[str, int] = {}
        self._side: tuple[bool, str] | None = None

    def holds(self, tensor: object) -> bool:
        return bool(self._held) and isinstance(tensor, torch.Tensor) and _key(tensor) in self._held

    @contextlib.contextmanager
    def side(self, *, on_host: bool, reason: str = _OF_OTHERS) -> Iterator[None]:
        """Inside it results lie there, whatever they are made of."""
        kept, self._side = self._side, (on_host, reason)
        try:
            yield
        finally:
            self._side = kept

    def takes(self, args: Iterable[object], kwargs: dict[str, object]) -> str | None:
        """Why the results of an operator on `args` lie in host memory; None where they don't.

        Values of no dimension may lie anywhere; others meet in one memory, or index what lies on the GPU.
        """
        if self._side is not None:
            return self._side[1] if self._side[0] else None
        if kwargs.get("pin_memory"):
            return _OF_OTHERS
        if not self._held:
            return None
        given = list(_tensors(args))
        held = [tensor for tensor in given if self.holds(tensor)]
        if not held or any(tensor.dim() and not self.holds(tensor) for tensor in given):
            return None
        return _OF_OTHERS

    def put(self, tensor: torch.Tensor, reason: str) -> None:
        key = _key(tensor)
        if key is not None and key not in self._held:
            self._held[key] = tensor.untyped_storage().nbytes(), reason

    def free(self, key: int) -> None:
        self._held.pop(key, None)

    def end_forward(self) -> None:
        total: dict[str, int] = defaultdict(int)
        for size, reason in self._held.values():
            total[reason] += size
        for reason, size in total.items():
            self._most[reason] = max(size, self._most.get(reason, 0))

    def said(self) -> list[str]:
        """What lies there when a forward ends, a sentence for each reason."""
        return [f"{size / 2**20:,.1f} MiB {_SAID[reason]}" for reason, size in self._most.items() if size]


def _key(tensor: torch.Tensor) -> int | None:
    try:
        return tensor.untyped_storage()._cdata
    except (NotImplementedError, RuntimeError):  # sparse and other tensors without one storage
        return None


def _tensors(items: Iterable[object]) -> Iterator[torch.Tensor]:
    for item in items:
        if isinstance(item, torch.Tensor):
            yield item
        elif isinstance(item, (list, tuple)):
            yield from _tensors(item)
