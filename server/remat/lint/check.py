"""The whole linter as one function: a text and what is known about its surroundings in, findings out. Never raises."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from remat.finding import Edit, Finding, Fix, Span
from remat.lint import suppress
from remat.lint.code.parsed import LARGEST, Interest
from remat.lint.code.parts import SupersededError
from remat.lint.code.source import Source
from remat.lint.code.split import common
from remat.lint.edits import line_feeds
from remat.lint.rule import Context, Rule
from remat.lint.rules import RULES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

IMPORT_ROOTS = ("torch", "transformers", "accelerate", "deepspeed", "peft", "megatron", "fairscale", "lightning", "trl")
KNOWN = frozenset({*(rule.name for rule in RULES), suppress.UNUSED})
# The word that most rules have first: it is the likeliest to be there, and one that is absent is sought to the end
_WORDS = tuple(word for word, _ in Counter(sorted(word for rule in RULES for word in rule.words)).most_common())
_WORDS_AS_BYTES = tuple(word.encode() for word in _WORDS)
_BOM = "\ufeff"


@dataclass(frozen=True, slots=True)
class Unread:
    """A statement that does not parse, or has more than `LARGEST` characters. `start`: its offset."""

    start: int
    too_large: bool


@dataclass(frozen=True, slots=True)
class Analysis:
    """One text's findings, in source order, with what makes the next version of it cheap."""

    text: str
    findings: tuple[Finding, ...]
    context: Context
    _source: Source | None = field(default=None, repr=False)

    @property
    def unread(self) -> tuple[Unread, ...]:
        """The statements that could hold a problem and were not read: without them, silence would look like praise."""
        if self._source is None:
            return ()
        shift = len(self.text) - len(self._source.text)
        missing = (p.piece for p in self._source.parts if p.stale or not (p.parsed or p.skipped))
        return tuple(Unread(p.start + shift, too_large=p.end - p.start > LARGEST) for p in missing)


def check(text: str, context: Context | None = None) -> list[Finding]:
    """Every finding in `text`, in source order."""
    analysis = analyse(text, context)
    return list(analysis.findings) if analysis else []


def analyse(
    text: str,
    context: Context | None = None,
    before: Analysis | None = None,
    is_current: Callable[[], bool] = lambda: True,
) -> Analysis | None:
    """Check `text`, reusing the analysis of an earlier version. None: `is_current` said that a newer version has come.

    Where a piece does not parse, the findings it last had stay, moved with the edit and without their fixes.
    """
    context = context or Context()
    body = line_feeds(text.removeprefix(_BOM))
    if not worth_reading(text):
        return Analysis(text, (), context)
    try:
        source = Source(body, interest(), before._source if before else None, is_current)  # noqa: SLF001 - ours
        found = list(_run(source, context, is_current))
    except SupersededError:
        return None
    judged = frozenset(rule.name for rule in RULES if context.settings.enabled(rule.name))
    stale = [part.piece for part in source.parts if part.stale]
    found = suppress.apply(found, body, source.pieces, KNOWN, judged if source.complete and not stale else frozenset())
    bom = len(text) - len(body)
    found = [_shifted(f, bom) for f in found if context.settings.enabled(f.rule)]
    if "\r" in text and "\n" not in text:
        found = [_with_returns(f) for f in found]
    if stale and before:
        places = [(p.start + bom, p.end + bom) for p in stale]
        kept = moved(before.findings, before.text, text)
        found += [f for f in kept if any(start <= f.span.start < end for start, end in places)]
    return Analysis(text, tuple(_unique(found)), context, source)


def worth_reading(text: str | bytes) -> bool:
    """Whether any rule could find something: a look at the characters, before anything is decoded or parsed."""
    if isinstance(text, bytes):
        return any(word in text for word in _WORDS_AS_BYTES) or suppress.MARK.encode() in text
    return any(word in text for word in _WORDS) or suppress.MARK in text


@lru_cache(1)
def interest() -> Interest:
    """The pieces that any rule cares for: its words, and imports of the libraries that its names come from."""
    words = "|".join(map(re.escape, _WORDS))
    imports = rf"^[ \t]*(?:from|import)[ \t][^\n]*\b(?:{'|'.join(IMPORT_ROOTS)}|functools|importlib)"
    return Interest(re.compile(f"(?m){words}|{imports}"), frozenset(t for rule in RULES for t in rule.targets))


def _run(source: Source, context: Context, is_current: Callable[[], bool]) -> Iterator[Finding]:
    rules: Iterable[Rule] = RULES
    for rule in rules:
        if context.settings.enabled(rule.name):
            if not is_current():
                raise SupersededError
            yield from rule.check(source, context)


def _unique(findings: list[Finding]) -> list[Finding]:
    once = {(f.rule, f.span): f for f in reversed(findings)}
    return sorted(once.values(), key=lambda f: (f.span.start, f.rule, f.span.end))


def moved(findings: Iterable[Finding], old: str, new: str) -> Iterator[Finding]:
    """Those findings of `old` that an edit did not touch, where they stand in `new`, without fixes."""
    head, tail = common(old, new)
    for finding in findings:
        if finding.span.end <= head:
            yield replace(finding, fix=None)
        elif finding.span.start >= len(old) - tail:
            yield _shifted(replace(finding, fix=None), len(new) - len(old))


def _shifted(finding: Finding, by: int) -> Finding:
    if not by:
        return finding
    fix = finding.fix and Fix(
        finding.fix.title, tuple(Edit(_by(e.span, by), e.text) for e in finding.fix.edits), finding.fix.safe
    )
    return replace(finding, span=_by(finding.span, by), fix=fix)


def _with_returns(finding: Finding) -> Finding:
    """With edits for a text whose lines end in carriage returns."""
    fix = finding.fix
    if fix is None:
        return finding
    edits = tuple(Edit(edit.span, edit.text.replace("\n", "\r")) for edit in fix.edits)
    return replace(finding, fix=replace(fix, edits=edits))


def _by(span: Span, by: int) -> Span:
    return Span(span.start + by, span.end + by)
