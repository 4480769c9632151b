"""The first sentence of a report says what happened, on which rank, and fits on a line or two."""

from __future__ import annotations

from remat.diagnose.report import Claim, Report
from remat.incident.headline import headline


def of(summary: str, rank: int | None = None) -> str:
    return headline(Report(failed=True, cause=Claim("kind", summary, (1,)), initiating_rank=rank))


def test_it_is_the_cause_s_first_sentence_without_what_the_log_says() -> None:
    assert of("The disk is full. Nothing was saved. The log says: OSError: [Errno 28]") == "The disk is full"
    assert of("torch 2.9.1 refused it. The log says: x. Y") == "torch 2.9.1 refused it"


def test_it_names_the_rank_where_the_sentence_does_not() -> None:
    assert of("The GPU is out of memory.", 3) == "Rank 3: The GPU is out of memory"
    assert of("Rank 3 died of SIGSEGV.", 3) == "Rank 3 died of SIGSEGV"


def test_a_long_sentence_ends_with_a_whole_clause() -> None:
    long = "Rank 3 never came: " + "it waited, " * 30 + "and ended"
    assert len(of(long)) <= 200
    assert of(long).endswith("it waited")
    bracket = "Rank 3 was late in a collective that every other rank had finished before (absent, " + "or late, " * 20
    assert "(" not in of(bracket) or ")" in of(bracket) or of(bracket).endswith("…")


def test_without_a_cause_it_says_so() -> None:
    assert headline(Report(failed=False)) == "No failure is shown in this log"
    assert headline(Report(failed=True)) == "It failed, and the log does not say why"
