"""Ways to call a class or function of the user's: the arguments of each, made anew whenever a model is."""

from __future__ import annotations

import contextlib
import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import nn

from remat.probe.built import FactMissingError
from remat.probe.made_with import remember
from remat.probe.target.asides import left_out
from remat.probe.target.loading import DataMissingError

if TYPE_CHECKING:
    from collections.abc import Callable

    from remat.probe.target.calls import Callee


class HollowError(ValueError):
    """What was made has no parameters: it was not told of what to make them."""


_OF_ARGUMENTS = (
    TypeError,
    ValueError,
    RuntimeError,
    AttributeError,
    AssertionError,
    LookupError,
    OSError,
    NameError,
    FactMissingError,
)


@dataclass(frozen=True, slots=True)
class Arguments:
    """What a class or function, or its `method`, is called with, each made anew by its function."""

    positional: tuple[Callable[[], object], ...] = ()
    named: tuple[tuple[str, Callable[[], object]], ...] = ()
    assumptions: tuple[str, ...] = ()
    method: str = ""

    def call(self, callee: Callee[object]) -> object:
        function = getattr(callee, self.method) if self.method else callee
        positional = tuple(make() for make in self.positional)
        named = {name: make() for name, make in self.named}
        made = function(*positional, **named)
        if isinstance(made, nn.Module):
            bound: dict[str, object] = {}
            with contextlib.suppress(ValueError, TypeError):  # a callable without a signature
                bound = dict(inspect.signature(function).bind(*positional, **named).arguments)
            remember(made, (*positional, *named.values(), bound))
        return made


@dataclass(slots=True)
class Ways:
    """Ways to call a class or function, the likeliest first; one that fails gives way to the next.

    `later`: further ways, looked for once these have failed. `question`: what to ask where all fail; where it is None,
    or knows none, their error.
    """

    ways: list[Arguments]
    question: Callable[[Exception, tuple[str, ...]], FactMissingError | None] | None = None
    later: Callable[[Exception], list[Arguments]] | None = None

    def call(self, callee: Callee[object]) -> object:
        first: Exception | None = None
        while True:
            try:
                return _with_parameters(self.ways[0].call(callee))
            except _OF_ARGUMENTS as error:
                if isinstance(error, FactMissingError) and not isinstance(error, DataMissingError):
                    raise
                if first is None:
                    first, said = error, self.said()
                if len(self.ways) == 1 and self.later is not None:
                    self.ways += self.later(first)
                    self.later = None
                if len(self.ways) > 1:
                    del self.ways[0]
                    continue
                asked = None if isinstance(first, FactMissingError) else self._asked(first, said)
                if asked is None and isinstance(first, HollowError):
                    asked = FactMissingError(f"a model to train: {first}", "name a class or function that makes one")
                if asked is None:
                    raise first from None
                raise asked from first

    def _asked(self, first: Exception, said: tuple[str, ...]) -> FactMissingError | None:
        if self.question is None or (left_out() and isinstance(first, NameError)):
            return None
        return self.question(first, said)

    def said(self) -> tuple[str, ...]:
        return self.ways[0].assumptions


def _with_parameters(made: object) -> object:
    if isinstance(made, nn.Module) and next(made.parameters(), None) is None:
        raise HollowError(f"the {type(made).__name__} it makes has no parameters")
    return made
