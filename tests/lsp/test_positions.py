"""Lines and columns in the three encodings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol.types import Position, Range

from remat.finding import Span
from remat.lsp.positions import Lines, code_points, split_lines, units

TEXT = st.text(st.sampled_from("ab\n\r\f\x0b\x1c\x85\u2028é中𝄞 "), max_size=40)
ENCODING = st.sampled_from(["utf-8", "utf-16", "utf-32"])


@pytest.mark.parametrize("char", ["\f", "\v", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"])
def test_only_lf_cr_and_crlf_end_a_line(char):
    assert split_lines(f"a{char}b\nc\r\nd\re") == [f"a{char}b\n", "c\r\n", "d\r", "e"]


def test_what_follows_the_last_line_end_is_a_line_too():
    assert split_lines("a\n") == ["a\n", ""]
    assert split_lines("") == [""]


@given(TEXT)
def test_lines_joined_are_the_text(text):
    assert "".join(split_lines(text)) == text


@pytest.mark.parametrize(("encoding", "column"), [("utf-8", 4), ("utf-16", 2), ("utf-32", 1)])
def test_an_astral_character_takes_as_many_columns_as_the_encoding_says(encoding, column):
    assert Lines(["𝄞x\n", ""], encoding).position(1) == Position(0, column)
    assert code_points("𝄞x\n", column, encoding) == 1


@pytest.mark.parametrize(("encoding", "inside"), [("utf-8", 2), ("utf-16", 1)])
def test_a_column_inside_a_character_is_its_start(encoding, inside):
    assert code_points("𝄞x", inside, encoding) == 0


def test_a_column_behind_the_line_is_its_end_before_the_line_break():
    for encoding in ("utf-8", "utf-16", "utf-32"):
        assert code_points("aé\r\n", 99, encoding) == 2
        assert code_points("ab\r\n", 99, encoding) == 2


def test_a_line_behind_the_text_is_its_end():
    assert Lines(split_lines("ab\nc"), "utf-16").offset(Position(99, 3)) == 4


def test_a_range_the_wrong_way_round_is_turned():
    assert Lines(["abc"], "utf-16").span(Range(Position(0, 2), Position(0, 1))) == Span(1, 2)


def test_a_lone_surrogate_does_not_crash():
    for encoding in ("utf-8", "utf-16", "utf-32"):
        assert units("a\ud800b", encoding) >= 3
        assert Lines(["a\ud800b"], encoding).offset(Position(0, 99)) == 3


@given(TEXT, ENCODING)
def test_every_offset_survives_the_way_to_the_editor_and_back(text, encoding):
    places = Lines(split_lines(text), encoding)
    for offset in range(len(text) + 1):
        there = places.offset(places.position(offset))
        assert there == offset or text[there:offset] == "\r"  # between CR and LF no editor has a place
