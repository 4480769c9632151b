"""A diagnosis as text, as Markdown and as JSON."""

from __future__ import annotations

import json
import re
import shlex
import textwrap
from dataclasses import dataclass
from itertools import chain, repeat
from typing import TYPE_CHECKING

from remat.diagnose.signatures import KINDS
from remat.incident.harmless import harmless
from remat.incident.masking import masked, users_in
from remat.incident.shell import runnable
from remat.links import failure_url
from remat.render.terminal import Piece

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from remat.diagnose.report import Claim, Report
    from remat.incident.explained import Explained


@dataclass(frozen=True, slots=True)
class Diagnosed:
    """One run: its name, what was found, where each of its files starts, and the linter's findings that explain it."""

    name: str
    report: Report
    files: tuple[tuple[str, int], ...] = ()
    findings: tuple[Explained, ...] = ()


_LABEL = 10  # columns of a label and the space behind it
_MARKUP = re.compile(r"([\\`*_{}\[\]<>()#|!~&])")
_ACTS = re.compile(r"(@|://)")  # mentions and links that GitHub makes of plain text; a comment inside breaks them


def as_json(reports: Sequence[Diagnosed]) -> str:
    """An array with one object per run, in order. Lines count through `files` where a run has several."""
    return json.dumps([_object(one) for one in reports], indent=2, ensure_ascii=False) + "\n"


def _object(one: Diagnosed) -> dict[str, object]:
    report = one.report
    cause, fix, location = report.cause, report.fix, report.location
    return {
        "file": one.name,
        "failed": report.failed,
        "cause": _claim(cause) if cause else None,
        "initiating_rank": report.initiating_rank,
        "collateral": [{"rank": c.rank, "summary": safe(c.summary), "lines": list(c.lines)} for c in report.collateral],
        "fix": {"summary": safe(fix.summary), "rules": list(fix.rules)} if fix else None,
        "verify": {"command": safe(report.verify)} if report.verify else None,
        "missing": [{"fact": safe(m.fact), "why": safe(m.why), "how": safe(m.how)} for m in report.missing],
        "also": [_claim(claim) for claim in report.also],
        "location": {"path": safe(location.path), "line": location.line} if location else None,
        "decided": [_claim(claim) for claim in report.decided],
        "files": [{"file": file, "first_line": first} for file, first in one.files],
        "findings": [_finding(explained) for explained in one.findings],
    }


def _finding(one: Explained) -> dict[str, object]:
    line, column = place(one)
    fix = one.finding.fix
    return {
        "code": one.finding.rule,
        "filename": one.path,
        "location": {"row": line, "column": column},
        "message": one.finding.message,
        "fix": {"applicability": "safe" if fix.safe else "unsafe", "message": fix.title} if fix else None,
    }


def place(one: Explained) -> tuple[int, int]:
    """Line and column of a finding, from 1."""
    start = one.finding.span.start
    return one.text.count("\n", 0, start) + 1, start - one.text.rfind("\n", 0, start)


def _claim(claim: Claim) -> dict[str, object]:
    return {"id": claim.id, "summary": safe(claim.summary), "lines": list(claim.lines)}


def as_text(reports: Sequence[Diagnosed], width: int | None = None) -> Iterator[Piece]:
    """For a terminal, with no control character of the log. `width`: the columns to wrap at; None: not at all."""
    for number, one in enumerate(reports):
        if number:
            yield Piece("\n")
        yield Piece(f"{safe(one.name)}: ", "bold")
        yield Piece(f"{verdict(one.report)}\n", "bold red" if one.report.failed else "bold green")
        for label, said, style in _rows(one):
            yield Piece(f"  {label:<{_LABEL}}", "dim")
            yield Piece(f"{_wrapped(safe(said), width)}\n", style)


def _rows(one: Diagnosed) -> Iterator[tuple[str, str, str]]:
    """A label (empty: as before), what is said, and its style."""
    report = one.report
    if cause := report.cause:
        yield "began" if report.failed else "why", cause.summary, ""
        yield "", f"{cause.id} {_lines(cause.lines)}", f"dim link {failure_url(cause.id)}"
    if report.location:
        yield "at", f"{report.location.path}:{report.location.line}", "bold cyan"
    for label, follower in zip(_labels("followed"), report.collateral, strict=False):
        yield label, f"{follower.summary} {_lines(follower.lines)}", ""
    if report.fix:
        yield "fix", report.fix.summary, "bold"
    for found in one.findings:
        yield "", f"{found.path}:{place(found)[0]}: {found.finding.rule}: {found.finding.message}", ""
        if found.finding.fix:
            yield "", _repair(found), "cyan"
    if report.verify:
        yield "check", report.verify, "cyan"
    for missing in report.missing:
        yield "missing", f"{missing.fact}: {missing.why}", "yellow"
        yield "", f"get it: {missing.how}", "cyan"
    for label, claim in zip(_labels("also"), report.also, strict=False):
        yield label, f"{claim.summary} {_lines(claim.lines)}", ""
    for label, (file, first) in zip(_labels("lines"), one.files, strict=False):
        yield label, f"from {first} on: {file}", "dim"


def _labels(first: str) -> Iterator[str]:
    return chain([first], repeat(""))


def _wrapped(text: str, width: int | None) -> str:
    margin = "\n" + " " * (_LABEL + 2)
    room = max(40, (width or 0) - _LABEL - 2)
    return margin.join(textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False)) if width else text


def _repair(one: Explained) -> str:
    """The command that makes a finding's fix."""
    fix = one.finding.fix
    unsafe = "" if fix and fix.safe else "--unsafe-fixes --diff "
    return f"{fix.title if fix else ''}: remat fix {unsafe}{shlex.quote(safe(one.path))}"


def as_markdown(reports: Sequence[Diagnosed]) -> str:
    """A page to send to others: secrets masked, and nothing that the log says acts as markup, mention or link."""
    return "\n".join(_markdown(one) for one in reports)


def _markdown(one: Diagnosed) -> str:
    report = one.report
    users = users_in("\n".join([one.name, *_texts(report), *(found.path for found in one.findings)]))

    def plain(text: str) -> str:
        return _unmarked(masked(safe(text), users))

    rows = [f"## {plain(one.name)}: {verdict(report)}", ""]
    if report.cause:
        rows += [f"**{report.cause.id}** {plain(report.cause.summary)} {_lines(report.cause.lines)}", ""]
    if report.location:
        rows += [f"At {plain(report.location.path)}:{report.location.line}", ""]
    if report.collateral:
        rows += ["### What followed", ""]
        rows += [f"- {plain(c.summary)} {_lines(c.lines)}" for c in report.collateral]
        rows.append("")
    if report.fix:
        rows += ["### Fix", "", plain(report.fix.summary), ""]
        rows += [
            f"- {plain(found.path)}:{place(found)[0]} ({found.finding.rule}): {plain(found.finding.message)}"
            for found in one.findings
        ]
        rows += [""] if one.findings else []
    if report.verify:
        rows += ["### Verify", "", *_fenced(masked(safe(report.verify), users), report), ""]
    if report.missing:
        rows += ["### Missing", ""]
        for missing in report.missing:
            rows += [f"- {plain(missing.fact)}: {plain(missing.why)}. Obtain it: {plain(missing.how)}"]
        rows.append("")
    if report.also:
        rows += ["### Also", "", *(f"- {plain(claim.summary)} {_lines(claim.lines)}" for claim in report.also), ""]
    rows += [f"- lines from {first} on: {plain(file)}" for file, first in one.files]
    return "\n".join(rows)


def _texts(report: Report) -> Iterator[str]:
    """All that a report quotes."""
    claims = [*([report.cause] if report.cause else []), *report.also]
    yield from (claim.summary for claim in claims)
    yield from (follower.summary for follower in report.collateral)
    yield from (text for missing in report.missing for text in (missing.fact, missing.why, missing.how))
    yield from filter(
        None, (report.location and report.location.path, report.fix and report.fix.summary, report.verify)
    )


def verdict(report: Report) -> str:
    """The outcome in a few words."""
    if not report.failed:
        return "stopped, not failed" if report.cause else "nothing failed"
    return "failed" if report.initiating_rank is None else f"failed, beginning on rank {report.initiating_rank}"


def _lines(lines: Sequence[int]) -> str:
    return f"(line{'s' * (len(lines) != 1)} {', '.join(map(str, lines))})"


def safe(text: str) -> str:
    """Without control characters and invisible direction marks: nothing the log holds can act on a terminal."""
    return harmless(text.replace("\n", " "))


def _unmarked(text: str) -> str:
    return _ACTS.sub(lambda match: f"{match[0][0]}<!-- -->{match[0][1:]}", _MARKUP.sub(r"\\\1", text))


def _fenced(text: str, report: Report) -> list[str]:
    kind = KINDS.get(report.cause.id) if report.cause else None
    language = "sh" if kind and report.verify and runnable(kind, report.verify) else "text"
    return [f"```{language}", text.replace("```", "'''"), "```"]
