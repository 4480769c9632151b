"""Findings as diagnostics, and the fix that travels in a diagnostic's `data` back into edits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol.types import CodeDescription, Diagnostic, DiagnosticSeverity, DiagnosticTag

from remat.finding import Edit, Finding, Fix, Severity, Span
from remat.links import rule_url

if TYPE_CHECKING:
    from collections.abc import Iterable

    from remat.lsp.positions import Lines

SOURCE = "Remat"
_SEVERITIES = {
    Severity.ERROR: DiagnosticSeverity.Error,
    Severity.WARNING: DiagnosticSeverity.Warning,
    Severity.INFO: DiagnosticSeverity.Information,
    Severity.HINT: DiagnosticSeverity.Hint,
}
_UNNECESSARY = frozenset({"unused-suppression"})  # editors grey out such code


def diagnostics(findings: Iterable[Finding], places: Lines, version: int | None) -> list[Diagnostic]:
    return [_diagnostic(finding, places, version) for finding in findings]


def _diagnostic(finding: Finding, places: Lines, version: int | None) -> Diagnostic:
    return Diagnostic(
        range=places.range(finding.span),
        message=finding.message,
        severity=_SEVERITIES[finding.severity],
        code=finding.rule,
        code_description=CodeDescription(rule_url(finding.rule)),
        source=SOURCE,
        tags=[DiagnosticTag.Unnecessary] if finding.rule in _UNNECESSARY else None,
        data=_data(finding.fix, version),
    )


def _data(fix: Fix | None, version: int | None) -> dict[str, object]:
    """What an editor gives back unchanged. Offsets are code points in the text of `version`."""
    if fix is None:
        return {"version": version}
    edits = [[edit.span.start, edit.span.end, edit.text] for edit in fix.edits]
    return {"version": version, "fix": {"title": fix.title, "safe": fix.safe, "edits": edits}}


def carries_data(diagnostic: Diagnostic) -> bool:
    return isinstance(diagnostic.data, dict) and "version" in diagnostic.data


def finding_of(diagnostic: Diagnostic, places: Lines, version: int | None) -> Finding | None:
    """The finding that a diagnostic was made from; None where it is not ours, or speaks of another version."""
    data: object = diagnostic.data
    if diagnostic.source != SOURCE or not isinstance(diagnostic.code, str) or not isinstance(data, dict):
        return None
    if data.get("version", ...) != version:
        return None
    span = places.span(diagnostic.range)
    fix = _fix(data.get("fix"), places.starts[-1])
    return Finding(diagnostic.code, span, str(diagnostic.message), Severity.WARNING, fix)


def _fix(data: object, length: int) -> Fix | None:
    match data:
        case {"title": str(title), "safe": bool(safe), "edits": [*edits]}:
            read = [_edit(edit, length) for edit in edits]
            good = tuple(edit for edit in read if edit is not None)
            return Fix(title, good, safe) if good and len(good) == len(read) else None
        case _:
            return None


def _edit(data: object, length: int) -> Edit | None:
    match data:
        case [int(start), int(end), str(text)] if 0 <= start <= end <= length:
            return Edit(Span(start, end), text)
        case _:
            return None
