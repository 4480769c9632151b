"""What `remat check`, `remat fix` and `remat rules` do once the command line is understood; each returns its status."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TextIO

from remat import examine, scan
from remat.lint.rules import RULES
from remat.output import coloured, emit, progress, warn
from remat.render import machine, terminal
from remat.render.diff import unified
from remat.render.report import Report
from remat.render.rule_page import page
from remat.render.terminal import Piece, Read, counted
from remat.source_text import decode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from remat.examine import Outcome
    from remat.scan import Choices, Plan

CLEAN, FOUND, ERROR = 0, 1, 2
STDIN = "-"


@dataclass(frozen=True, slots=True)
class Request:
    """What a user asked to look at, and how to tell. `stdin_filename`: where the text of standard input stands."""

    paths: tuple[str, ...]
    output_format: str
    choices: Choices
    stdin_filename: str | None = None

    @property
    def of_stdin(self) -> bool:
        return self.paths == (STDIN,)

    @property
    def for_people(self) -> bool:
        return self.output_format in {"full", "concise"}


def check(request: Request) -> int:
    plan = _plan(request, _stdin(request))
    if plan is None:
        return ERROR
    outcomes = _run(plan)
    _tell(request, plan, outcomes, sys.stdout)
    return _status(plan, outcomes)


def fix(request: Request, *, diff: bool) -> int:
    """Make the fixes, then tell what is left; on standard error where standard output is the fixed text or the diff."""
    data = _stdin(request)
    plan = _plan(request, data)
    if plan is None:
        return ERROR
    outcomes = _run(plan)
    if diff:
        _show_diff(plan, outcomes, request)
    elif request.of_stdin:
        _write_bytes(next((examine.fixed_bytes(o, data) for o in outcomes if o.made), data))
    else:
        outcomes = _written(plan, outcomes)
    out = sys.stderr if diff or request.of_stdin else sys.stdout
    _tell(request, plan, outcomes, out, made="Would fix" if diff else "Fixed")
    unmade = diff and any(outcome.made for outcome in outcomes)  # they are on disk as they were
    return _status(plan, outcomes) or (FOUND if unmade else CLEAN)


def rules(name: str | None) -> int:
    if name is None:
        width = max(len(rule.name) for rule in RULES)
        for rule in RULES:
            emit([Piece(f"{rule.name:<{width}}", "bold"), Piece(f"  {rule.severity.value:<7}  {rule.summary}\n")])
        return CLEAN
    text = next(page(rule) for rule in RULES if rule.name == name)
    if coloured(sys.stdout):
        from rich.console import Console  # noqa: PLC0415  (only a terminal needs it)
        from rich.markdown import Markdown  # noqa: PLC0415

        Console(force_terminal=True).print(Markdown(text))
    else:
        sys.stdout.write(text)
    return CLEAN


def _stdin(request: Request) -> bytes:
    return sys.stdin.buffer.read() if request.of_stdin else b""


def _plan(request: Request, data: bytes) -> Plan | None:
    """Read what is to be looked at, and warn about what cannot be. None where nothing can be."""
    try:
        if request.of_stdin:
            plan = scan.plan_one(os.path.abspath(request.stdin_filename or STDIN), data, request.choices)  # noqa: PTH100
        else:
            plan = scan.plan(request.paths, request.choices)
    except ValueError as error:
        warn(str(error))
        return None
    for wrong in plan.misconfigured:
        warn(f"{_shown(wrong.path, request)}: {wrong.message}")
    for environment in plan.environments:
        if request.choices.python and not environment.stamps:
            warn(f"{request.choices.python} has no installed packages; library versions can be given with --versions")
    for unread in plan.unread:
        warn(f"{_shown(unread.path, request)}: {unread.reason}")
    if not plan.files and not plan.unread:
        warn(f"no Python files found in {', '.join(request.paths)}")
    return plan


def _run(plan: Plan) -> list[Outcome]:
    with progress(len(plan.jobs)) as advance:
        return examine.run(plan.jobs, advance)


def _written(plan: Plan, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Write what was fixed; an outcome that could not be written says so, and counts no fix."""
    read = {job.path: job.data for job in plan.jobs}
    told: list[Outcome] = []
    for outcome in outcomes:
        why = examine.write(outcome, read[outcome.path]) if outcome.made else None
        told.append(replace(outcome, made=0, troubles=(*outcome.troubles, why)) if why else outcome)
    return told


def _show_diff(plan: Plan, outcomes: Sequence[Outcome], request: Request) -> None:
    read = {job.path: job.data for job in plan.jobs}
    for outcome in outcomes:
        if outcome.made:
            encoding = decode(read[outcome.path]).encoding
            _write_bytes(unified(outcome.before, outcome.text, _shown(outcome.path, request), encoding))


def _tell(request: Request, plan: Plan, outcomes: Sequence[Outcome], out: TextIO, made: str = "") -> None:
    reports = [Report(_named(o.path, request), _shown(o.path, request), o.text, o.findings) for o in outcomes]
    for outcome in outcomes:
        for trouble in outcome.troubles:
            warn(f"{_shown(outcome.path, request)}: {trouble}")
    if request.for_people:
        emit((terminal.full if request.output_format == "full" else terminal.concise)(reports), out)
        if fixed := [outcome.made for outcome in outcomes if outcome.made]:
            emit([Piece(f"{made} {counted(sum(fixed), 'problem')} in {counted(len(fixed), 'file')}.\n")], out)
        read = Read(plan.files, len(plan.unread), sum(not outcome.whole for outcome in outcomes))
        emit([Piece(terminal.summary(reports, read, _versions(plan)) + "\n")], out)
    else:
        out.write((machine.as_json if request.output_format == "json" else machine.as_github)(reports))
    out.flush()


def _versions(plan: Plan) -> str:
    """Say for which versions the findings hold, where that is the same for all."""
    known = {", ".join(sorted(job.versions.describe(name) for name in job.versions.known)) for job in plan.jobs}
    return known.pop() if len(known) == 1 else ""


def _status(plan: Plan, outcomes: Sequence[Outcome]) -> int:
    if plan.unread or plan.misconfigured or any(outcome.troubles for outcome in outcomes):
        return ERROR
    return FOUND if any(outcome.findings for outcome in outcomes) else CLEAN


def _named(path: str, request: Request) -> str:
    return STDIN if request.of_stdin and request.stdin_filename is None else path


def _shown(path: str, request: Request) -> str:
    """Name a path as its user would: below the working directory relative to it, else in full."""
    base = os.environ.get("GITHUB_WORKSPACE") if request.output_format == "github" else None
    for folder in filter(None, (base, os.getcwd())):  # noqa: PTH109
        # Asked first, since relpath raises on another drive of Windows.
        if os.path.join(path, "").startswith(os.path.join(folder, "")):  # noqa: PTH118
            return _named(os.path.relpath(path, folder), request)
    return _named(path, request)


def _write_bytes(data: bytes) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
