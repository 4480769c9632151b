"""What a rule is: its name, its documentation, its examples, its options and its check, in one module."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from remat.finding import Finding, Severity, Span
from remat.lint.project import Project
from remat.settings import Settings
from remat.versions import Versions

if TYPE_CHECKING:
    from remat.lint.code.source import Source


@dataclass(frozen=True, slots=True)
class Context:
    """All that a check knows besides the text: the environment's versions, the user's settings, the files beside it."""

    versions: Versions = field(default_factory=Versions)
    settings: Settings = field(default_factory=Settings)
    project: Project = field(default_factory=Project)


Check = Callable[["Source", Context], Iterator[Finding]]


@dataclass(frozen=True, slots=True)
class Bad:
    """Code the rule flags, each flagged span in «marks», and what the fix makes of it (None: no fix is offered)."""

    code: str
    fixed: str | None = None
    safe: bool = False
    severity: Severity | None = None  # None: the rule's own
    says: tuple[str, ...] = ()  # what the message must contain
    versions: str = ""
    beside: Mapping[str, str] = field(default_factory=dict)  # other files of the project, by path
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Good:
    """Code the rule must leave alone, and why."""

    code: str
    because: str
    versions: str = ""
    beside: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Option:
    """A setting `[tool.remat.<rule name>]` with its allowed values; the first is the default."""

    name: str
    values: tuple[str, ...]
    doc: str


@dataclass(frozen=True, slots=True)
class Rule:
    """`doc` is the module's docstring: first paragraph, then the headings of `docs/rules/`."""

    module: str
    doc: str
    severity: Severity
    check: Check
    examples: tuple[Bad | Good, ...]
    words: tuple[str, ...]  # a file or piece that holds none of these needs no look; nor is one's absence ever claimed
    targets: tuple[str, ...] = ()  # dotted names: a piece that uses one under an alias is looked at too
    options: tuple[Option, ...] = ()

    @property
    def name(self) -> str:
        return self.module.rpartition(".")[2].replace("_", "-")

    @property
    def summary(self) -> str:
        return self.doc.strip().split("\n\n")[0].replace("\n", " ")


def unmark(code: str) -> tuple[str, list[Span]]:
    """Take «marks» out of an example; return where they were."""
    text, spans, starts = "", [], list[int]()
    for char in textwrap.dedent(code).removeprefix("\n"):
        if char == "«":
            starts.append(len(text))
        elif char == "»":
            spans.append(Span(starts.pop(), len(text)))
        else:
            text += char
    return text, sorted(spans, key=lambda s: (s.start, s.end))
