"""The world in which a model is made: values that constructors ask of small tensors are there, under fakes as well."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, cast

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode

from remat.probe.built import FactMissingError
from remat.probe.guards import user_location
from remat.probe.simulated.few_values import FEW, Unknowable, constant
from remat.probe.simulated.lenient import assume
from remat.probe.simulated.trace import line_outside_torch
from remat.probe.target.asides import note

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from remat.probe.simulated.lenient import Assumed
    from remat.probe.target.calls import Callee

_SMALL = 100_000
_STAGES = 64
"""that a model has at most: a longer range counts positions"""


@contextlib.contextmanager
def outside() -> Iterator[None]:
    """Leave the fake world: what is made here is real, and outlives the fakes of one variant."""
    with torch.utils._python_dispatch._disable_current_modes(), torch._C.DisableTorchFunction():
        yield


@contextlib.contextmanager
def building() -> Iterator[None]:
    """Let `[x.item() for x in torch.linspace(0, rate, depth)]` have its values: they decide which paths are dropped.

    So do those of a short `torch.arange(depth)`, of which widths are worked out.
    """
    linspace, arange, backward = torch.linspace, torch.arange, torch.Tensor.backward
    torch.linspace, torch.arange, torch.Tensor.backward = _real(linspace), _known(arange, _STAGES), _not_trained
    try:
        with _RealStaysReal():
            yield
    finally:
        torch.linspace, torch.arange, torch.Tensor.backward = linspace, arange, backward


def _not_trained(*_args: object, **_kwargs: object) -> None:
    place = user_location(sys._getframe(1))
    where = f" at {place.path}:{place.line}" if place else ""
    raise FactMissingError(
        f"what the model is before it is trained: making it runs training{where}, which is never run",
        "name what makes it: file.py:ClassName, the line of the call, or # remat: probe(model=…)",
        place,
    )


_FILLED = ("full", "arange", "ones", "zeros")


@contextlib.contextmanager
def known_numbers() -> Iterator[None]:
    """Let `torch.full((batch,), 50)` keep its values, as `torch.tensor([50])` does: lengths decide on sizes."""
    kept = {name: getattr(torch, name) for name in _FILLED}
    for name, make in kept.items():
        setattr(torch, name, _known(make))
    try:
        yield
    finally:
        for name, make in kept.items():
            setattr(torch, name, make)


def _known(make: Callee[torch.Tensor], most_floats: int = 0) -> Callee[torch.Tensor]:
    def known(*args: object, **kwargs: object) -> torch.Tensor:
        made = make(*args, **kwargs)
        if not isinstance(made, FakeTensor):
            return made
        if made.numel() > (most_floats if made.is_floating_point() else most_floats or FEW):
            return made
        with outside():
            values = make(*args, **{**kwargs, "device": "cpu"})
        return constant(made.fake_mode, values)

    return known


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


class Answering(TorchDispatchMode):
    """Lets a trial of a forward go on where it asks for values; the estimate says what it assumes."""

    def __torch_dispatch__(
        self,
        func: Callee[object],
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        try:
            return func(*args, **(kwargs or {}))
        except Unknowable as error:
            return assume(cast("torch._ops.OpOverload", func), args, error, {}, line_outside_torch())


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
