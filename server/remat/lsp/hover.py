"""What an editor shows over a finding: its message, its fix, and the whole documentation of its rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol.types import Hover, MarkupContent, MarkupKind

from remat.links import rule_url

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lsprotocol.types import Position

    from remat.finding import Finding
    from remat.lsp.documents import Document


def hover(document: Document, findings: Sequence[Finding], position: Position, kind: MarkupKind) -> Hover | None:
    offset = document.places.offset(position)
    here = [f for f in findings if f.span.start <= offset <= f.span.end]
    if not here:
        return None
    docs = _documentation()
    shown = "\n\n---\n\n".join(_about(finding, docs.get(finding.rule, ""), kind) for finding in here)
    return Hover(MarkupContent(kind, shown), document.places.range(here[0].span))


def _documentation() -> dict[str, str]:
    from remat.lint.rules import RULES  # noqa: PLC0415 - imports libcst, too slow for the start

    return {rule.name: rule.doc.strip() for rule in RULES}


def _about(finding: Finding, doc: str, kind: MarkupKind) -> str:
    name = f"**{finding.rule}**" if kind is MarkupKind.Markdown else finding.rule
    parts = [f"{name}: {finding.message}"]
    if finding.fix is not None:
        note = "" if finding.fix.safe else " (not known to be safe here: review it)"
        parts.append(f"Fix: {finding.fix.title}{note}")
    if doc:
        parts += [doc.replace("\n## ", "\n### "), rule_url(finding.rule)]
    return "\n\n".join(parts)
