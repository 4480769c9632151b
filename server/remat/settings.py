"""What the user set in `[tool.remat]`: read from a parsed table, never fatal, each problem named with what is allowed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from remat.versions import Versions

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Settings:
    """Defaults are what an empty `[tool.remat]` means."""

    select: frozenset[str] | None = None  # None: every rule
    ignore: frozenset[str] = frozenset()
    exclude: tuple[str, ...] = ()  # gitignore patterns, added to the default excludes
    versions: Versions = field(default_factory=Versions)
    options: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # rule name -> option -> value

    def enabled(self, rule: str) -> bool:
        return rule not in self.ignore and (self.select is None or rule in self.select)

    def option(self, rule: str, name: str, default: str) -> str:
        return self.options.get(rule, {}).get(name, default)
