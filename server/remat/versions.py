"""The library versions a claim is made for; what is not known stays unknown."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Versions:
    """Distribution name (lower case, `-` for `_`) to the version in the user's environment."""

    known: Mapping[str, Version] = field(default_factory=dict)

    @staticmethod
    def parse(text: str) -> Versions:
        """Read `torch=2.9.1,transformers=4.57.6`. Raises ValueError naming the part that is not NAME=VERSION."""
        known: dict[str, Version] = {}
        for part in filter(None, (p.strip() for p in text.split(","))):
            name, equals, number = part.partition("=")
            try:
                known[canonical(name)] = Version(number.strip().lstrip("="))
            except InvalidVersion:
                equals = ""
            if not equals or not name.strip():
                raise ValueError(f"expected NAME=VERSION such as torch=2.9.1, got {part!r}")
        return Versions(known)

    def get(self, name: str) -> Version | None:
        return self.known.get(name)

    def at_least(self, name: str, number: str) -> bool | None:
        """Whether `name` is at `number` or later; None where that is unknown. Local parts (+cu126) don't count."""
        version = self.known.get(name)
        return None if version is None else Version(version.base_version) >= Version(number)

    def describe(self, name: str) -> str:
        """`torch 2.9.1`, or just `torch` where the version is not known."""
        version = self.known.get(name)
        return name if version is None else f"{name} {version.public}"


def canonical(name: str) -> str:
    return name.strip().lower().replace("_", "-")
