"""What the user set in `[tool.remat]`, read from its table: problems are named with what is allowed, the rest holds."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version

from remat.libraries import LIBRARIES
from remat.versions import Versions, canonical

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from remat.lint.rule import Option

KEYS = ("select", "ignore", "exclude", "versions")


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


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing in `[tool.remat]` that was not understood; what it would have set keeps its default."""

    key: str  # dotted, below tool.remat
    message: str


def read_settings(
    table: Mapping[str, object], rules: Mapping[str, tuple[Option, ...]]
) -> tuple[Settings, list[Problem]]:
    """Read a `[tool.remat]` table. `rules`: each name that may be selected, with its options."""
    problems: list[Problem] = []
    unknown = [key for key in table if key not in KEYS and key not in rules]
    problems += [Problem(key, unknown_name("key", key, [*KEYS, *rules])) for key in unknown]
    select = _rule_names("select", table.get("select", []), rules, problems)
    settings = Settings(
        select=select or (frozenset() if table.get("select") == [] else None),
        ignore=_rule_names("ignore", table.get("ignore", []), rules, problems),
        exclude=tuple(_strings("exclude", table.get("exclude", []), problems)),
        versions=_versions(table.get("versions", {}), problems),
        options={name: _options(name, table[name], rules[name], problems) for name in rules if name in table},
    )
    return settings, problems


def unknown_name(what: str, given: str, allowed: Iterable[str]) -> str:
    """`unknown rule "x"; did you mean "y"?`, or all that is allowed where nothing comes near."""
    names = sorted(allowed)
    near = difflib.get_close_matches(given, names, n=1)
    hint = f'did you mean "{near[0]}"?' if near else f"allowed: {', '.join(names)}"
    return f'unknown {what} "{given}"; {hint}'


def unknown_library(name: str) -> str | None:
    """Why `name` is no library Remat asks for the version of; None where it is one."""
    if canonical(name) in LIBRARIES:
        return None
    if canonical(name) == "pytorch":
        return 'unknown library "pytorch"; its distribution is called "torch"'
    return unknown_name("library", name, LIBRARIES)


def _strings(key: str, value: object, problems: list[Problem]) -> list[str]:
    if not isinstance(value, list):
        problems.append(Problem(key, f"expected a list of strings, got {_shown(value)}"))
        return []
    problems += [Problem(key, f"expected a string, got {_shown(item)}") for item in value if not isinstance(item, str)]
    return [item for item in value if isinstance(item, str)]


def _rule_names(key: str, value: object, rules: Mapping[str, object], problems: list[Problem]) -> frozenset[str]:
    names = _strings(key, value, problems)
    problems += [Problem(key, unknown_name("rule", name, rules)) for name in names if name not in rules]
    return frozenset(name for name in names if name in rules)


def _versions(value: object, problems: list[Problem]) -> Versions:
    if not isinstance(value, dict):
        problems.append(Problem("versions", f'expected a table such as {{torch = "2.9.1"}}, got {_shown(value)}'))
        return Versions()
    known: dict[str, Version] = {}
    for name, number in value.items():
        key = f"versions.{name}"
        if (message := unknown_library(name)) is not None:
            problems.append(Problem(key, message))
        elif not isinstance(number, str):
            problems.append(Problem(key, f'expected a version in quotes such as "2.9.1", got {_shown(number)}'))
        else:
            try:
                known[canonical(name)] = Version(number)
            except InvalidVersion:
                problems.append(Problem(key, f'expected a version such as "2.9.1", got {_shown(number)}'))
    return Versions(known)


def _options(rule: str, value: object, options: tuple[Option, ...], problems: list[Problem]) -> dict[str, str]:
    if not isinstance(value, dict):
        problems.append(Problem(rule, f"expected a table [tool.remat.{rule}], got {_shown(value)}"))
        return {}
    allowed = {option.name: option.values for option in options}
    chosen: dict[str, str] = {}
    for name, given in value.items():
        if name not in allowed:
            message = unknown_name("option", name, allowed) if allowed else f'unknown option "{name}"; it has none'
            problems.append(Problem(f"{rule}.{name}", message))
        elif given not in allowed[name]:
            values = ", ".join(f'"{one}"' for one in allowed[name])
            problems.append(Problem(f"{rule}.{name}", f"expected one of {values}, got {_shown(given)}"))
        else:
            chosen[name] = given
    return chosen


def _shown(value: object) -> str:
    """Show a TOML value as its writer would recognise it, cut where it is long."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a table"
    text = f'"{value}"' if isinstance(value, str) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
