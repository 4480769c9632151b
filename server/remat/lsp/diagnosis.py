"""A log and the workspace around it, in; the report that an editor shows, out. Runs beside the editor's messages."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pygls.uris import from_fs_path

from remat.diagnose.diagnose import diagnose
from remat.diagnose.signatures import KINDS
from remat.incident.code_paths import CodePaths, named_places
from remat.incident.evidence_files import Evidence, evidence, noted
from remat.incident.excerpt import Shown, excerpt
from remat.incident.explained import Explained, explained
from remat.incident.headline import headline
from remat.incident.masking import masked
from remat.incident.rank_guards import explained_by_code
from remat.incident.readable import of_text
from remat.incident.run_log import RunLog, counted
from remat.incident.shell import runnable
from remat.links import failure_url
from remat.lsp.positions import Lines, split_lines, units
from remat.protocol import (
    CodePlace,
    Diagnosis,
    EvidenceFile,
    Follower,
    LogFile,
    LogLine,
    LogLink,
    MissingFact,
    Repair,
    Statement,
)
from remat.render.diagnosis import Diagnosed, as_markdown, safe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from remat.diagnose.report import Claim, Report
    from remat.finding import Finding
    from remat.protocol import DiagnoseParams


@dataclass(frozen=True, slots=True)
class Workspace:
    """`text`, `look`: a file's present text, and with it all its findings. `encoding`: how columns are counted."""

    roots: tuple[str, ...]
    text: Callable[[str], str | None]
    look: Callable[[str], tuple[str, Sequence[Finding]] | None]
    encoding: str


def diagnosis(params: DiagnoseParams, workspace: Workspace, is_wanted: Callable[[], bool]) -> Diagnosis:
    """Diagnose one run. Raises OSError where there is no text to read, Stopped where nobody waits any more."""
    code = CodePaths(workspace.roots, params.cwd)
    log = RunLog.of(params.text, params.paths, is_wanted)
    report, beside, count = _judged(log, params, code)
    if read := tuple(one.path for one in beside if one.read):
        whole = replace(log, paths=(*log.paths, *read), starts=[])
        try:
            report, _, count = _judged(whole, params, code)
            log = whole
        except OSError as error:  # the log itself is still worth its report
            said = f"it cannot be read: {error.strerror or error}"
            beside = [replace(one, what=said if one.path == error.filename else one.what, read=False) for one in beside]
    shown = excerpt(log.lines(), _claims(report), count)
    named = [(row.number, place) for row in shown for place in named_places(row.text)]
    report = explained_by_code(report, named, code, workspace.text)
    found = explained(report, named, code, workspace.look)
    return _assembled(params.name, report, shown, count, log, beside, found, code, workspace)


def _judged(log: RunLog, params: DiagnoseParams, code: CodePaths) -> tuple[Report, list[Evidence], int]:
    names: dict[str, None] = {}
    count: list[int] = []
    name = log.paths[0] if len(log.paths) == 1 and not log.text else params.name
    report = diagnose(noted(counted(of_text(name, log.lines()), count), names))
    permitted = {os.path.realpath(path) for path in params.permitted}
    roots = [os.path.realpath(root) for root in code.roots]

    def may_read(path: str) -> bool:
        return path in permitted or any(Path(path).is_relative_to(root) for root in roots)

    own = {os.path.realpath(path) for path in log.paths}
    return report, evidence(names, [params.cwd or "", *code.roots], may_read, own), count[0]


def _files(log: RunLog) -> tuple[LogFile, ...]:
    """Where each begins; what all their paths have in common is left out of the names."""
    if len(log.starts) + bool(log.text) < 2:
        return ()
    common = os.path.commonpath([os.path.dirname(os.path.abspath(path)) for path, _ in log.starts])  # noqa: PTH100, PTH120
    return tuple(LogFile(safe(os.path.relpath(path, common)), first) for path, first in log.starts)


def _missed(log: RunLog) -> Iterator[MissingFact]:
    for said in log.missed:
        yield MissingFact("the other files of the folder", safe(said), "Remat: Diagnose Log File… on a folder below it")


def _claims(report: Report) -> list[tuple[int, ...]]:
    first = [report.cause.lines] if report.cause else []
    others = [claim.lines for claim in (*report.also, *report.decided)]
    return [*first, *(follower.lines for follower in report.collateral), *others]


def _assembled(  # noqa: PLR0913, PLR0917 - it only puts together what others found
    name: str,
    report: Report,
    shown: Sequence[Shown],
    count: int,
    log: RunLog,
    beside: Sequence[Evidence],
    found: Sequence[Explained],
    code: CodePaths,
    workspace: Workspace,
) -> Diagnosis:
    cause, where = report.cause, report.location
    lines = tuple(LogLine(row.number, row.text, row.proves, _links(row.text, code)) for row in shown)
    files = _files(log)
    named_files = tuple((file.name, file.first_line) for file in files)
    place = CodePlace(safe(where.path), where.line, _uri(code.find(where.path))) if where else None
    return Diagnosis(
        name=safe(name),
        failed=report.failed,
        headline=safe(headline(report)),
        cause=_statement(cause) if cause else None,
        docs=failure_url(cause.id) if cause else None,
        rank=report.initiating_rank,
        place=place,
        followed=tuple(Follower(c.rank, safe(c.summary), c.lines) for c in report.collateral),
        fix=safe(report.fix.summary) if report.fix else None,
        repairs=tuple(_repair(one, workspace.encoding) for one in found),
        verify=safe(report.verify) if report.verify else None,
        shell=bool(cause and report.verify and runnable(KINDS[cause.id], report.verify)),
        missing=(*(MissingFact(safe(m.fact), safe(m.why), safe(m.how)) for m in report.missing), *_missed(log)),
        also=tuple(map(_statement, report.also)),
        decided=tuple(map(_statement, report.decided)),
        log=lines,
        line_count=count,
        files=files,
        evidence=tuple(EvidenceFile(safe(one.path), one.what, one.read) for one in beside),
        markdown=as_markdown([Diagnosed(name, report, named_files, tuple(found))]) + masked(_quoted(lines)),
    )


def _statement(claim: Claim) -> Statement:
    return Statement(claim.id, safe(claim.summary), claim.lines)


def _links(text: str, code: CodePaths) -> tuple[LogLink, ...]:
    links = []
    for named in named_places(text):
        uri = _uri(code.find(named.path))
        if uri is not None:
            before = units(text[: named.start], "utf-16")
            links.append(LogLink(before, before + units(text[named.start : named.end], "utf-16"), uri, named.line))
    return tuple(links)


def _uri(path: str | None) -> str | None:
    return from_fs_path(path) if path else None


def _repair(one: Explained, encoding: str) -> Repair:
    finding = one.finding
    start = Lines(split_lines(one.text), encoding).range(finding.span).start
    fix = finding.fix
    title = None if fix is None else fix.title if fix.safe else f"{fix.title} (review)"
    uri = _uri(one.path) or one.path
    return Repair(uri, start.line, start.character, finding.rule, finding.message, title, bool(fix and fix.safe))


def _quoted(lines: Sequence[LogLine]) -> str:
    """The proving lines with their numbers, fenced so that nothing in them is markup."""
    rows = [f"{line.number:>7}  {line.text}" for line in lines if line.proves]
    longest = max((len(run) for row in rows for run in row.split("`") if not run), default=0)
    fence = "`" * max(3, longest + 3 if any("```" in row for row in rows) else 3)
    return "\n".join(["", "### Log", "", f"{fence}text", *rows, fence, ""]) if rows else ""
