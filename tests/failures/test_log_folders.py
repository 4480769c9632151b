"""What torchrun --log-dir leaves behind, with and without the launcher's output: right, or honest about the rest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from program import PROGRAMS, SERVER, load, run

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow
# Ranks that said what went wrong: their files hold it all.
TELLING = (
    "ddp_rank_meets_bad_record",
    "ddp_two_ranks_fail_differently",
    "ddp_unused_parameters",
    "dist_extra_barrier_on_one_rank",
    "dist_uneven_batches",
    "dist_restart_fails_again",
)
# Ranks that said nothing: how they ended is in the launcher's output only.
SILENT = ("ddp_rank_killed", "dist_rank_leaves_early", "dist_rank_exits_with_status")


def diagnosed(*paths: Path) -> dict:
    command = [sys.executable, "-m", "remat", "diagnose", "--one-run", "--output-format", "json", *map(str, paths)]
    environment = {**os.environ, "PYTHONPATH": str(SERVER)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    (report,) = json.loads(done.stdout)
    return report


def ran(name: str, folder: Path) -> tuple[Path, Path]:
    """The folder of the ranks' files, and the file of what the launcher printed."""
    program = load(PROGRAMS / f"{name}.py")
    (folder / program.path.name).write_text(program.text)
    command = program.fields["run"].replace(" --tee 3", "").replace("torchrun", "torchrun --log-dir logs --redirects 3")
    _, output = run(command, folder)
    launcher = folder / "launcher.log"
    launcher.write_text(output)
    return folder / "logs", launcher


@pytest.mark.parametrize("name", [*TELLING, *SILENT])
def test_a_folder_and_the_launchers_output_together_tell_what_the_terminal_would(name: str, tmp_path: Path) -> None:
    expected = load(PROGRAMS / f"{name}.py").fields
    logs, launcher = ran(name, tmp_path)
    rank = int(expected["rank"]) if "rank" in expected else None
    whole = diagnosed(logs, launcher)
    assert (whole["cause"]["id"], whole["initiating_rank"]) == (expected["cause"], rank)
    alone = diagnosed(logs)
    if name in TELLING:
        assert (alone["cause"]["id"], alone["initiating_rank"]) == (expected["cause"], rank)
    else:
        assert alone["initiating_rank"] in {None, rank}
        assert alone["missing"] or not alone["failed"]  # the others may have been stopped before they said a word


def test_a_folder_whose_last_attempt_ended_well_is_no_failure(tmp_path: Path) -> None:
    logs, launcher = ran("dist_restart_helps", tmp_path)
    assert not diagnosed(logs)["failed"]
    assert not diagnosed(logs, launcher)["failed"]
