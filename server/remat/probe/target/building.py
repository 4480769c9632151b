"""The world in which a model is made: values that constructors ask of small tensors are there, under fakes as well."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, cast

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode

from remat.probe.simulated.lenient import Unknowable, assume
from remat.probe.target.weights import note

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from remat.probe.simulated.lenient import Assumed
    from remat.probe.target.calls import Callee

_SMALL = 100_000


@contextlib.contextmanager
def outside() -> Iterator[None]:
    """Leave the fake world: what is made here is real, and outlives the fakes of one variant."""
    with torch.utils._python_dispatch._disable_current_modes(), torch._C.DisableTorchFunction():
        yield


@contextlib.contextmanager
def building() -> Iterator[None]:
    """Let `[x.item() for x in torch.linspace(0, rate, depth)]` have its values: they decide which paths are dropped."""
    linspace = torch.linspace
    torch.linspace = _real(linspace)
    try:
        with _RealStaysReal():
            yield
    finally:
        torch.linspace = linspace


class _RealStaysReal(TorchDispatchMode):
    """Work on real tensors alone outside of the fake world, which would forget their values."""

    def __torch_dispatch__(
        self,
        func: Callee[object],
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        if FakeTensor in types:
            return _answered(func, args, kwargs or {})
        tensors = [t for t in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        if tensors and not any(isinstance(t, FakeTensor) or t.device.type == "meta" for t in tensors):
            with torch.utils._python_dispatch._disable_current_modes():
                return func(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def _answered(func: Callee[object], args: tuple[object, ...], kwargs: dict[str, object]) -> object:
    """Run an operator on fakes; a question about their values has a likely answer, which is said."""
    try:
        return func(*args, **kwargs)
    except Unknowable as error:
        assumed: dict[Assumed, int] = {}
        value = assume(cast("torch._ops.OpOverload", func), args, error, assumed, None)
        for what in assumed:
            note(f"while the model is made, {what}")
        return value


def _real(linspace: Callee[torch.Tensor]) -> Callee[torch.Tensor]:
    def real_if_small(*args: object, **kwargs: object) -> torch.Tensor:
        steps = kwargs.get("steps", args[2] if len(args) > 2 else None)
        if not isinstance(steps, int) or steps > _SMALL:
            return linspace(*args, **kwargs)
        with outside():
            return linspace(*args, **{**kwargs, "device": "cpu"})

    return real_if_small
