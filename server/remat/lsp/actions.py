"""The code actions: a finding's fix, all safe fixes at once, and silencing a rule on one line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lsprotocol import types
from lsprotocol.types import CodeAction, CodeActionKind

from remat.lsp.diagnostics import SOURCE, carries_data, diagnostics, finding_of
from remat.repair import apart

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from remat.finding import Edit, Finding
    from remat.lsp.documents import Document

FIX_ALL = "source.fixAll.remat"
KINDS = (CodeActionKind.QuickFix, FIX_ALL)


@dataclass(frozen=True, slots=True)
class Editor:
    """Which edits a client takes: with a document's version, or only bare ones."""

    versioned_edits: bool

    def edit(self, document: Document, edits: Iterable[Edit]) -> types.WorkspaceEdit:
        changes = [types.TextEdit(document.places.range(edit.span), edit.text) for edit in edits]
        if not self.versioned_edits:
            return types.WorkspaceEdit(changes={document.uri: changes})
        which = types.OptionalVersionedTextDocumentIdentifier(uri=document.uri, version=document.version)
        return types.WorkspaceEdit(document_changes=[types.TextDocumentEdit(which, list(changes))])


def code_actions(
    document: Document, findings: Sequence[Finding], params: types.CodeActionParams, editor: Editor
) -> list[CodeAction]:
    """What can be done at a place. `findings`: all those of the document's present version."""
    only = params.context.only
    actions: list[CodeAction] = []
    if _wanted(CodeActionKind.QuickFix, only):
        for finding, diagnostic in _meant(document, findings, params):
            actions += _on_one(document, finding, diagnostic, editor)
        actions += _on_all(document, findings, {a.diagnostics[0].code for a in actions if a.diagnostics}, editor)
    if only and _wanted(FIX_ALL, only):
        actions += _fix_all(document, findings, "Fix all safe problems", FIX_ALL, editor)
    return actions


def _wanted(kind: str, only: Sequence[str] | None) -> bool:
    return not only or any(kind == wanted or kind.startswith(f"{wanted}.") for wanted in only)


def _meant(
    document: Document, findings: Sequence[Finding], params: types.CodeActionParams
) -> Iterator[tuple[Finding, types.Diagnostic]]:
    """The findings asked about. Those of another version are refused; some editors keep no data, or send none."""
    sent = [d for d in params.context.diagnostics if d.source == SOURCE]
    if any(map(carries_data, sent)):
        for diagnostic in sent:
            finding = finding_of(diagnostic, document.places, document.version)
            if finding is not None:
                yield finding, diagnostic
        return
    place = document.places.span(params.range)
    here = [f for f in findings if f.span.start <= place.end and place.start <= f.span.end]
    yield from zip(here, diagnostics(here, document.places, document.version), strict=True)


def _on_one(document: Document, finding: Finding, diagnostic: types.Diagnostic, editor: Editor) -> Iterator[CodeAction]:
    from remat.lint.suppress import UNUSED, suppress_edit  # noqa: PLC0415 - imports libcst, too slow for the start

    if finding.fix is not None:
        safe = finding.fix.safe
        yield CodeAction(
            title=finding.fix.title if safe else f"{finding.fix.title} (review)",
            kind=CodeActionKind.QuickFix,
            diagnostics=[diagnostic],
            is_preferred=safe or None,
            edit=editor.edit(document, finding.fix.edits),
        )
    comment = None if finding.rule == UNUSED else suppress_edit(document.source, finding)
    if comment is not None:
        yield CodeAction(
            title=f"Suppress {finding.rule} here",
            kind=CodeActionKind.QuickFix,
            diagnostics=[diagnostic],
            edit=editor.edit(document, [comment]),
        )


def _on_all(
    document: Document, findings: Sequence[Finding], rules: Iterable[object], editor: Editor
) -> Iterator[CodeAction]:
    """Offers for the file, where a finding stands under the cursor and more than one would be fixed."""
    kind = CodeActionKind.QuickFix
    safe = [f for f in findings if f.fix and f.fix.safe]
    names = sorted({str(rule) for rule in rules})
    for rule in names:
        same = [f for f in safe if f.rule == rule]
        if len(same) > 1:
            yield from _fix_all(document, same, f"Fix all {rule} in this file", kind, editor)
    if names and len({f.rule for f in safe}) > 1:
        yield from _fix_all(document, safe, "Fix all safe problems", kind, editor)


def _fix_all(
    document: Document, findings: Iterable[Finding], title: str, kind: str, editor: Editor
) -> Iterator[CodeAction]:
    """All safe fixes that do not touch one another; what is left is fixed the next time."""
    chosen = apart(f for f in findings if f.fix and f.fix.safe)
    edits = [edit for finding in chosen if finding.fix for edit in finding.fix.edits]
    if edits:
        yield CodeAction(title=title, kind=kind, edit=editor.edit(document, edits))
