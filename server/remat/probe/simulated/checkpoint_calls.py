"""Each use of torch's activation checkpointing while a step runs: let through, noted, or taken out."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import torch
from torch import nn
from torch.utils import checkpoint as torch_checkpoint

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from remat.probe.simulated.modules import Modules
    from remat.probe.simulated.trace import Trace

Policy: TypeAlias = Literal["all", "chosen", "none"]
"""which calls checkpoint: all; only those of `Chosen` functions; none (the function just runs)"""


class Function(Protocol):
    """Anything that can be called."""

    def __call__(self, *args: object, **kwargs: object) -> object: ...


class _Generator(Protocol):
    def __call__(self, *args: object, **kwargs: object) -> Generator[None, None, None]: ...


@dataclass(frozen=True, slots=True)
class Call:
    """One call of `checkpoint` in the forward of a step."""

    module: str
    """the module it checkpoints, or the one it is called in"""
    reentrant: bool
    gradients: bool
    """whether autograd was recording"""
    input_needs_gradient: bool


class Chosen:
    """A function that is checkpointed because the variant says so, not the user's code."""

    def __init__(self, function: Function) -> None:
        self.function = function

    def __call__(self, *args: object, **kwargs: object) -> object:
        return self.function(*args, **kwargs)


@contextlib.contextmanager
def checkpoint_calls(trace: Trace, modules: Modules, policy: Policy) -> Iterator[list[Call]]:
    """Inside it every `torch.utils.checkpoint.checkpoint`, however it was imported, is seen and obeys `policy`.

    `checkpoint` looks up `CheckpointFunction` and `_checkpoint_without_reentrant_generator` in its own module when it
    is called (torch 2.1 to 2.13), so replacing these two catches every caller.
    """
    calls: list[Call] = []
    watch = _Watch(trace, modules, policy, calls)
    kept = torch_checkpoint.CheckpointFunction, torch_checkpoint._checkpoint_without_reentrant_generator
    torch_checkpoint.CheckpointFunction = _Reentrant(watch, kept[0])
    torch_checkpoint._checkpoint_without_reentrant_generator = partial(_non_reentrant, watch, kept[1])
    try:
        yield calls
    finally:
        torch_checkpoint.CheckpointFunction, torch_checkpoint._checkpoint_without_reentrant_generator = kept


@dataclass(frozen=True, slots=True)
class _Watch:
    trace: Trace
    modules: Modules
    policy: Policy
    calls: list[Call]

    def lets_through(self, function: object) -> bool:
        return self.policy == "all" or (self.policy == "chosen" and isinstance(function, Chosen))

    def note(self, function: object, args: tuple[object, ...], *, reentrant: bool) -> str:
        """Notes a call; returns the module that is checkpointed, if one can be told from the function."""
        owner = self.modules.name(_owner(function))
        inside = self.trace.modules[-1] if self.trace.modules else ""
        if self.trace.phase == "forward":
            needs = any(isinstance(item, torch.Tensor) and item.requires_grad for item in args)
            self.calls.append(Call(owner or inside, reentrant, torch.is_grad_enabled(), needs))
        return owner or ""

    def running(self, function: Function, owner: str) -> Function:
        """`function`, telling the trace when it runs again for backward."""

        def run(*args: object, **kwargs: object) -> object:
            trace = self.trace
            if trace.phase != "backward":
                return function(*args, **kwargs)
            trace.recomputing += 1
            if owner:
                self.modules.recomputed.add(owner)
                trace.modules.append(owner)
            depth = len(trace.modules)
            try:
                return function(*args, **kwargs)
            finally:
                trace.recomputing -= 1
                del trace.modules[depth - 1 if owner else depth :]

        return run


def _owner(function: object) -> nn.Module | None:
    """The module whose forward `function` is, through the wrappers that libraries put around it."""
    for _ in range(8):
        if isinstance(function, nn.Module):
            return function
        bound = getattr(function, "__self__", None)
        if isinstance(bound, nn.Module):
            return bound
        if isinstance(function, partial):
            if function.args and isinstance(function.args[0], nn.Module):
                return function.args[0]
            function = function.func
        elif isinstance(function, Chosen):
            function = function.function
        else:
            return None
    return None


class _Reentrant:
    """Stands for `CheckpointFunction`."""

    def __init__(self, watch: _Watch, original: type) -> None:
        self._watch, self._original = watch, original

    def apply(self, function: Function, preserve: object, *args: object) -> object:
        watch = self._watch
        if not watch.lets_through(function):
            return function(*args)
        owner = watch.note(function, args, reentrant=True)
        watch.trace.checkpointing += 1
        try:
            return self._original.apply(watch.running(function, owner), preserve, *args)  # type: ignore[attr-defined]
        finally:
            watch.trace.checkpointing -= 1


def _non_reentrant(
    watch: _Watch,
    original: _Generator,
    function: Function,
    *settings: object,
    **kwargs: object,
) -> Generator[None, None, None]:
    """Stands for `_checkpoint_without_reentrant_generator`: its one `yield` is where forward runs."""
    if not watch.lets_through(function):
        yield
        return
    owner = watch.note(function, (*settings, *kwargs.values()), reentrant=False)
    watch.trace.checkpointing += 1
    try:
        yield from original(watch.running(function, owner), *settings, **kwargs)
    finally:
        watch.trace.checkpointing -= 1
