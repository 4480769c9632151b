"""The type of a function of the user's, about whose parameters nothing is known."""

from __future__ import annotations

from typing import Protocol, TypeVar

Result_co = TypeVar("Result_co", covariant=True)


class Callee(Protocol[Result_co]):
    def __call__(self, *args: object, **kwargs: object) -> Result_co: ...
