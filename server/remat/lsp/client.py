"""What the editor at the other end can do, as far as it decides what is sent to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lsprotocol.types import MarkupKind
from pygls.capabilities import get_capability

if TYPE_CHECKING:
    from lsprotocol.types import ClientCapabilities


@dataclass(frozen=True, slots=True)
class Client:
    pulls: bool = False  # it asks for diagnostics; then they are never pushed
    refreshes: bool = False  # it asks again when told to
    watches: bool = False  # it can be asked to tell about changed files
    versioned_edits: bool = False
    markup: MarkupKind = MarkupKind.PlainText

    @staticmethod
    def of(capabilities: ClientCapabilities) -> Client:
        def can(name: str) -> bool:
            return bool(get_capability(capabilities, name, False))  # noqa: FBT003 - its signature

        formats = get_capability(capabilities, "text_document.hover.content_format", ()) or ()
        return Client(
            pulls=get_capability(capabilities, "text_document.diagnostic") is not None,
            refreshes=can("workspace.diagnostics.refresh_support"),
            watches=can("workspace.did_change_watched_files.dynamic_registration"),
            versioned_edits=can("workspace.workspace_edit.document_changes"),
            markup=MarkupKind.Markdown if MarkupKind.Markdown in formats else MarkupKind.PlainText,
        )
