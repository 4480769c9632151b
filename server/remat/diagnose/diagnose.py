"""`diagnose(log)`: from the text of a run to a report. Pure, deterministic, one pass, and it never raises."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from remat.diagnose.blame import judge
from remat.diagnose.reading import read
from remat.diagnose.report import Claim, Report

if TYPE_CHECKING:
    from collections.abc import Iterable


def diagnose(log: str | Iterable[str]) -> Report:
    """
    Diagnose one run: a text, or its lines one after another (memory stays bounded).

    Of several commands in the text the last is judged; an earlier one that failed is mentioned.
    """
    recorder = read(log)
    *earlier, last = recorder.runs
    report = judge(last)
    failed = [judge(run) for run in earlier]
    before = next((one for one in reversed(failed) if one.failed and one.cause), None)
    if before is None or before.cause is None:
        return report
    note = Claim(
        before.cause.id,
        f"An earlier run in this text failed too; this report is of the last run: {before.cause.summary}",
        before.cause.lines,
    )
    return replace(report, also=(*report.also, note))
