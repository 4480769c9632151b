"""A report shows the lines that prove it, harmless and never too many."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from remat.incident.excerpt import WHOLE, excerpt, seen


def test_a_short_log_is_shown_whole_with_its_proofs_marked() -> None:
    shown = excerpt(["a", "b", "c"], [(2,)], 3)
    assert [(row.number, row.text, row.proves) for row in shown] == [(1, "a", False), (2, "b", True), (3, "c", False)]


def test_of_a_long_log_the_proofs_and_their_neighbours_are_shown() -> None:
    lines = [str(number) for number in range(1, 10_001)]
    shown = excerpt(lines, [(5000,), (9999, 10_000)], len(lines))
    assert [row.number for row in shown] == [*range(4997, 5004), *range(9996, 10_001)]
    assert all(row.text == str(row.number) for row in shown)


def test_without_any_proof_the_end_is_shown() -> None:
    shown = excerpt(["x"] * 1000, [], 1000)
    assert shown[-1].number == 1000
    assert len(shown) < WHOLE


def test_a_claim_with_thousands_of_lines_does_not_fill_the_page() -> None:
    assert len(excerpt(["x"] * 9000, [range(1, 9001)], 9000)) <= 400


def test_colours_links_and_direction_marks_are_gone_and_the_last_state_of_a_bar_is_kept() -> None:
    assert seen("\x1b[31mred\x1b[0m \x1b]8;;command:x\x07link\x1b]8;;\x07") == "red link"
    assert "\u202e" not in seen("a\u202eb")
    assert seen(" 10%\r 20%\r\n") == " 20%"
    assert "more characters" in seen("x" * 100_000)[-40:]


@given(st.text(max_size=300))
def test_no_control_character_survives(line: str) -> None:
    assert not any(ord(char) < 32 and char != "\t" for char in seen(line).replace("\n", ""))
