"""Edits of an open document land where the editor made them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol import types
from pygls.workspace import PositionCodec

from remat.lsp.documents import Document, Documents
from remat.lsp.positions import Lines, split_lines

PIECE = st.text(st.sampled_from("ab\n\r\f\x85\u2028é𝄞"), max_size=12)


def document(text, encoding="utf-16"):
    codec = PositionCodec(encoding=types.PositionEncodingKind(encoding))
    return Document("file:///a.py", text, 1, "python", position_codec=codec)


def edit(doc, start, end, new):
    place = types.Range(types.Position(*start), types.Position(*end))
    doc.apply_change(types.TextDocumentContentChangePartial(place, new))


@pytest.mark.parametrize("char", ["\f", "\v", "\x1c", "\x85", "\u2028"])
def test_an_edit_after_a_form_feed_lands_in_its_line(char):
    doc = document(f"# page{char}\nfirst\nsecond\n")
    edit(doc, (2, 0), (2, 6), "third")
    assert doc.source == f"# page{char}\nfirst\nthird\n"


def test_typing_at_the_very_end_appends():
    doc = document("a\n")
    edit(doc, (1, 0), (1, 0), "b")
    assert doc.source == "a\nb"


def test_an_edit_behind_the_end_appends():
    doc = document("a")
    edit(doc, (7, 3), (9, 1), "b")
    assert doc.source == "ab"


def test_a_backward_range_is_turned():
    doc = document("abcd")
    edit(doc, (0, 3), (0, 1), "-")
    assert doc.source == "a-d"


def test_a_line_feed_typed_behind_a_carriage_return_joins_it():
    doc = document("a\rb")
    edit(doc, (1, 0), (1, 0), "\n")
    assert list(doc.lines) == ["a\r\n", "b"]


def test_a_whole_new_text_replaces_all():
    doc = document("a\nb")
    doc.apply_change(types.TextDocumentContentChangeWholeDocument("c\nd\n"))
    assert (doc.source, list(doc.lines)) == ("c\nd\n", ["c\n", "d\n", ""])


def test_positions_handed_out_stay_those_of_their_version():
    doc = document("a\nb\n")
    before = doc.places
    edit(doc, (0, 0), (0, 0), "new\n")
    assert (before.position(2), doc.places.position(2)) == (types.Position(1, 0), types.Position(0, 2))


@given(PIECE, st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40), PIECE), max_size=6), st.data())
def test_any_edits_give_the_text_that_slicing_gives(text, edits, data):
    encoding = data.draw(st.sampled_from(["utf-8", "utf-16", "utf-32"]))
    doc = document(text, encoding)
    for start, end, new in edits:
        places = Lines(split_lines(text), encoding)
        place = types.Range(places.position(min(start, len(text))), places.position(min(end, len(text))))
        span = places.span(place)
        doc.apply_change(types.TextDocumentContentChangePartial(place, new))
        text = text[: span.start] + new + text[span.end :]
        assert list(doc.lines) == split_lines(text)
        assert doc.source == text


def test_a_change_to_a_document_that_was_never_opened_is_ignored():
    documents = Documents(None)
    which = types.VersionedTextDocumentIdentifier(2, "file:///never.py")
    documents.update_text_document(which, types.TextDocumentContentChangeWholeDocument("x"))
    assert documents.find("file:///never.py") is None
