"""Programs that fail on this machine: each is diagnosed from what it printed, repaired as told, and then runs."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from program import SERVER, Program, everything, run
from shapes import WHOLE, answer, cuts, is_true_still

from remat.diagnose.diagnose import diagnose

if TYPE_CHECKING:
    from pathlib import Path

    from remat.diagnose.report import Report


CASES = [
    pytest.param(program, id=program.name, marks=() if "quick" in program.fields else (pytest.mark.slow,))
    for program in everything()
]


@pytest.mark.parametrize("program", CASES)
def test_a_failing_program_is_diagnosed_and_its_repair_runs(program: Program, tmp_path: Path) -> None:
    file = tmp_path / program.path.name
    file.write_text(program.text)
    status, output = run(program.fields["run"], tmp_path)
    report = diagnose(output)
    if program.fields["cause"] == "none":
        assert not report.failed, f"{report.cause}\n{output}"
        return
    assert status != 0, f"it was to fail:\n{output}"
    _is_as_told(program, report, output)
    _holds_in_other_shapes(report, output, program.fields.get("cut", ""))
    if program.has_repair:
        _repair(program, report, file)
        status, output = run(program.fields.get("fixed-run", program.fields["run"]), tmp_path)
        assert status == 0, f"the repaired program fails:\n{output}"
        after = diagnose(output)
        assert not after.failed, f"{after.cause}\n{output}"
    outbound = tmp_path / "outbound.txt"
    assert not outbound.exists(), f"it left the machine: {outbound.read_text()}"


def _is_as_told(program: Program, report: Report, output: str) -> None:
    expected = program.fields
    assert report.failed, output
    assert report.cause is not None
    assert report.cause.id == expected["cause"], f"{report.cause}\n{output}"
    rank = int(expected["rank"]) if "rank" in expected else None
    assert report.initiating_rank == rank, f"{report.cause}\n{output}"
    if "collateral" in expected:
        found = " ".join(str(one.rank) for one in report.collateral)
        assert found == expected["collateral"].replace("none", ""), output
    if expected.get("location") != "any":
        at = (report.location.path.rsplit("/", 1)[-1], report.location.line) if report.location else None
        told = (program.path.name, program.fails_at) if program.fails_at else None
        assert at == told, f"{report}\n{output}"
    assert report.fix is not None
    assert report.fix.summary
    assert report.verify
    assert "(not shown)" not in f"{report.cause.summary} {report.fix.summary} {report.verify}", report
    missing = " | ".join(one.fact for one in report.missing)
    assert expected["missing"].lower() in missing.lower() if "missing" in expected else not missing, missing
    for words in expected.get("says", "").split(" | "):
        assert words.lower() in report.cause.summary.lower(), report.cause.summary


def _holds_in_other_shapes(report: Report, output: str, cut: str) -> None:
    for name, shape in WHOLE.items():
        assert answer(diagnose(shape(output))) == answer(report), f"{name}:\n{output}"
    for name, part in cuts(output):
        said = diagnose(part)
        assert is_true_still(report, said, cut), f"{name}: {said}\n{output}"


def _repair(program: Program, report: Report, file: Path) -> None:
    """Do what the report says: its lint rule's fix, or the edit that its words name."""
    assert report.fix is not None
    rule = program.fields.get("fix-rule")
    if rule is None:
        words = program.fields["fix-says"]
        assert words.lower() in report.fix.summary.lower(), report.fix
        assert program.fields.get("fix-edits", words).lower() in program.edited.lower(), program.edited
        file.write_text(program.fixed_by_hand)
        return
    assert rule in report.fix.rules, report.fix
    command = [sys.executable, "-m", "remat", "fix", "--unsafe-fixes", "--select", rule, file.name]
    environment = {**os.environ, "PYTHONPATH": str(SERVER)}
    done = subprocess.run(command, cwd=file.parent, env=environment, capture_output=True, text=True, check=False)
    assert file.read_text() != program.text, done.stdout + done.stderr
