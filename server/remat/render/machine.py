"""The formats that programs read: a JSON array in ruff's shape, and the annotations of a GitHub workflow."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from remat.finding import Severity
from remat.links import rule_url
from remat.render.report import Lines, Report

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from remat.finding import Finding, Fix

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice", Severity.HINT: "notice"}


def as_json(reports: Iterable[Report]) -> str:
    """Return one array, in ASCII so that no pipe's encoding can break it."""
    found = [_object(finding, report, lines) for report, lines in _with_lines(reports) for finding in report.findings]
    return json.dumps(found, indent=2) + "\n"


def as_github(reports: Iterable[Report]) -> str:
    """Return one workflow command per finding, which GitHub shows at the line in the pull request."""
    return "".join(
        _command(finding, report, lines) + "\n" for report, lines in _with_lines(reports) for finding in report.findings
    )


def _with_lines(reports: Iterable[Report]) -> Iterator[tuple[Report, Lines]]:
    return ((report, Lines.of(report.text)) for report in reports if report.findings)


def _object(finding: Finding, report: Report, lines: Lines) -> dict[str, object]:
    return {
        "code": finding.rule,
        "filename": report.path,
        "location": _location(lines, finding.span.start),
        "end_location": _location(lines, finding.span.end),
        "message": finding.message,
        "severity": finding.severity.value,
        "fix": _fix(finding.fix, lines) if finding.fix else None,
        "url": rule_url(finding.rule),
    }


def _fix(fix: Fix, lines: Lines) -> dict[str, object]:
    return {
        "applicability": "safe" if fix.safe else "unsafe",
        "message": fix.title,
        "edits": [
            {
                "content": edit.text,
                "location": _location(lines, edit.span.start),
                "end_location": _location(lines, edit.span.end),
            }
            for edit in fix.edits
        ],
    }


def _location(lines: Lines, offset: int) -> dict[str, int]:
    row, column = lines.position(offset)
    return {"row": row, "column": column}


def _command(finding: Finding, report: Report, lines: Lines) -> str:
    row, column = lines.position(finding.span.start)
    end_row, end_column = lines.position(finding.span.end)
    properties = {"file": report.shown, "line": row, "col": column, "endLine": end_row}
    if end_row == row:  # GitHub reads columns only within one line
        properties["endColumn"] = end_column
    properties["title"] = f"Remat ({finding.rule})"
    listed = ",".join(f"{key}={_escaped(str(value), ':,')}" for key, value in properties.items())
    return f"::{_COMMANDS[finding.severity]} {listed}::{_escaped(finding.message)}"


def _escaped(text: str, more: str = "") -> str:
    for char in "%\r\n" + more:  # the percent sign first: it escapes the others
        text = text.replace(char, f"%{ord(char):02X}")
    return text
