"""Clocks of a log put failures in order only where they can be compared."""

from __future__ import annotations

import pytest
from tests.diagnose.test_blame import raised

from remat.diagnose.clocks import first_of, moment
from remat.diagnose.diagnose import diagnose

LOGGED = "2025-05-01 10:00:{},{} [rank{}] ERROR trainer: it failed\n"


@pytest.mark.parametrize(
    ("one", "other", "first"),
    [
        ("2025-05-01 10:00:03,412", "2025-05-01 10:00:03,967", 1),
        ("2025-05-02T10:11:00.900Z", "2025-05-02T12:11:00.100+02:00", 2),
        ("E321 03:42:15.411000001", "E321 03:42:15.411000000", 2),
        ("2025-03-21_03:42:19", "2025-03-21_03:42:21", 1),
        ("2025-03-21_03:42:19", "2025-03-21_03:42:20", None),
        ("2025-05-01 10:00:03,412", "2025-05-02T10:11:00.900Z", None),
        ("E321 03:42:15.411000001", "E322 00:00:01.000000000", None),
        ("2025-05-01 10:00:03,412", "", None),
        ("2025-13-41 10:00:03,412", "2025-05-01 10:00:03,412", None),
    ],
)
def test_the_first_of_two_ranks(one: str, other: str, first: int | None) -> None:
    assert first_of({1: one, 2: other}) == first


def test_a_text_without_a_time_is_no_moment() -> None:
    assert moment("") is None
    assert moment("10:00") is None


def test_the_line_that_a_logger_wrote_before_a_traceback_gives_its_time() -> None:
    log = LOGGED.format("03", "412", 1) + raised(1, "KeyError: 'a'") + "\n"
    log += LOGGED.format("03", "967", 5) + raised(5, "IndexError: x")
    assert diagnose(log).initiating_rank == 1
    assert diagnose(log.replace("10:00:03,967", "10:00:03,112")).initiating_rank == 5
