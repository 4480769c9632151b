"""The open documents, as the editor sees them: lines split as the protocol says, edits that land where they belong."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import unquote

from lsprotocol import types
from pygls.workspace import TextDocument, Workspace

from remat.lsp.positions import Lines, code_points, split_lines

if TYPE_CHECKING:
    from collections.abc import Sequence


class Document(TextDocument):
    """One open document. `pygls` splits lines at form feeds and the like, and corrupts the text after one."""

    _lines: list[str] | None = None

    @property
    def source(self) -> str:
        if self._source is None:
            self._source = "".join(self.lines)
        return self._source

    @property
    def lines(self) -> Sequence[str]:
        if self._lines is None:
            self._lines = split_lines(self._source or "")
        return self._lines

    @cached_property
    def places(self) -> Lines:
        """Positions in the present version."""
        return Lines(self.lines, self.position_codec.encoding or types.PositionEncodingKind.Utf16)

    def apply_change(self, change: types.TextDocumentContentChangeEvent) -> None:
        self.__dict__.pop("places", None)
        if isinstance(change, types.TextDocumentContentChangeWholeDocument):
            self._source, self._lines = change.text, None
        else:
            self._splice(change)

    def _splice(self, change: types.TextDocumentContentChangePartial) -> None:
        """Replace the lines that a change touches, with a neighbour on each side: a CR and an LF may meet there."""
        lines = list(self.lines)  # a copy: positions handed out before stay those of their version
        first, start = self._place(lines, change.range.start)
        last, end = self._place(lines, change.range.end)
        if (last, end) < (first, start):
            first, start, last, end = last, end, first, start
        above, below = max(first - 1, 0), min(last + 2, len(lines))
        head = "".join(lines[above:first]) + lines[first][:start]
        tail = lines[last][end:] + "".join(lines[last + 1 : below])
        changed = split_lines(head + change.text + tail)
        if below < len(lines):
            changed.pop()  # the empty one behind the last line end; the next line stands there
        lines[above:below] = changed
        self._lines, self._source = lines, None

    def _place(self, lines: Sequence[str], position: types.Position) -> tuple[int, int]:
        if position.line >= len(lines):
            return len(lines) - 1, len(lines[-1])
        encoding = self.position_codec.encoding or types.PositionEncodingKind.Utf16
        return position.line, code_points(lines[position.line], position.character, encoding)


class Documents(Workspace):
    """All open documents. What a client says about one it never opened is ignored."""

    def _create_text_document(
        self, doc_uri: str, source: str | None = None, version: int | None = None, language_id: str | None = None
    ) -> Document:
        return Document(
            doc_uri, source or "", version, language_id, sync_kind=self._sync_kind, position_codec=self._position_codec
        )

    def find(self, uri: str) -> Document | None:
        found = self.text_documents.get(unquote(uri))
        return found if isinstance(found, Document) else None

    def opened(self) -> list[Document]:
        return [document for document in self.text_documents.values() if isinstance(document, Document)]

    def update_text_document(
        self, text_doc: types.VersionedTextDocumentIdentifier, change: types.TextDocumentContentChangeEvent
    ) -> None:
        if self.find(text_doc.uri) is not None:
            super().update_text_document(text_doc, change)

    def update_notebook_document(self, params: types.DidChangeNotebookDocumentParams) -> None:
        if self.get_notebook_document(notebook_uri=params.notebook_document.uri) is not None:
            super().update_notebook_document(params)
