"""What the proofs measure: a step's gradients, the bytes autograd keeps for backward, the peak during a step."""

from __future__ import annotations

import warnings
import weakref
from typing import TYPE_CHECKING

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor, nn

Gradients = list["Tensor | None"]


def gradients(model: nn.Module, loss: Callable[[], Tensor]) -> Gradients:
    """Every parameter's gradient after one step from the same random state."""
    model.zero_grad(set_to_none=True)
    torch.manual_seed(0)
    loss().backward()
    return [p.grad for p in model.parameters()]


def equal(a: Gradients, b: Gradients) -> list[bool]:
    """For each parameter, whether both gradients are the same to the last bit; None equals only None."""
    return [x is y if x is None or y is None else torch.equal(x, y) for x, y in zip(a, b, strict=True)]


def close(a: Gradients, b: Gradients) -> bool:
    """Equal but for the rounding of sums made in another order."""
    return all(
        x is not None and y is not None and torch.allclose(x, y, rtol=1e-4, atol=1e-6)
        for x, y in zip(a, b, strict=True)
    )


def warned(run: Callable[[], object]) -> str:
    """All the warnings that `run` gives, as one text."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run()
    return "\n".join(str(w.message) for w in caught)


def saved_bytes(model: nn.Module, loss: Callable[[], Tensor]) -> int:
    """Bytes that autograd holds between forward and backward, each storage once, the model's parameters left out."""
    parameters = {p.untyped_storage().data_ptr() for p in model.parameters()}
    storages: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in parameters:
            storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor):
        alive = loss()
    assert alive.requires_grad
    return sum(storages.values())


class _Allocations(TorchDispatchMode):
    """Counts the bytes of the storages created while it is active and still alive."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self.alive: dict[int, weakref.ref[torch.UntypedStorage]] = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(out):
            if isinstance(leaf, torch.Tensor):
                self._count(leaf.untyped_storage())
        return out

    def _count(self, storage: torch.UntypedStorage) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key in self.alive:
            return

        def freed(_: object) -> None:
            del self.alive[key]
            self.now -= size

        self.alive[key] = weakref.ref(storage, freed)
        self.now += size
        self.peak = max(self.peak, self.now)


def peak_bytes(model: nn.Module, loss: Callable[[], Tensor]) -> int:
    """The most bytes alive at once during forward and backward, on top of the parameters and their gradients."""
    gradients(model, loss)  # the gradients exist before the count begins
    with _Allocations() as allocations:
        loss().backward()
    return allocations.peak
