"""The script that compares estimates with a real GPU, run on the CPU: its record, and what is run again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def truth(record: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "bench" / "gpu_truth.py"), "--device", "cpu", "--only", "nano bf16 sgd"]
    command += ["--out", str(record), *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "server")}
    return subprocess.run(command, check=False, capture_output=True, text=True, env=environment)


def test_a_run_that_was_cut_off_is_gone_on_with(tmp_path: Path) -> None:
    record = tmp_path / "truth.json"
    cut = truth(record, "--seconds", "-1")
    assert cut.returncode == 1
    assert "not run: 1 rows: no time was left" in cut.stdout
    assert json.loads(record.read_text())["rows"][0]["measured"] is None
    first = truth(record, "--resume")
    assert first.returncode == 0, first.stdout + first.stderr
    (row,) = json.loads(record.read_text())["rows"]
    assert abs(row["errors"]["allocated"]) < 0.01
    again = truth(record, "--resume", "--seconds", "-1")
    assert again.returncode == 0
    assert json.loads(record.read_text())["rows"] == [row]
