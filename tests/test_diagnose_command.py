"""`remat diagnose`: one report for each file, one for a folder; the exit status says whether something failed."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

FAILED = 'Traceback (most recent call last):\n  File "fit.py", line 3, in main\n    x\nValueError: bad\n'


def remat(*args: object, stdin: str = "") -> tuple[int, str, str]:
    command = [sys.executable, "-m", "remat", "diagnose", *map(str, args)]
    run = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
    return run.returncode, run.stdout, run.stderr


def test_each_file_is_a_run_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(FAILED)
    (tmp_path / "b.log").write_text("step 1 loss 2\ntraining finished\n")
    status, out, _ = remat("--output-format", "json", tmp_path / "a.log", tmp_path / "b.log")
    assert status == 1
    assert [report["failed"] for report in json.loads(out)] == [True, False]


def test_a_run_without_failure_exits_with_0(tmp_path: Path) -> None:
    (tmp_path / "b.log").write_text("step 1 loss 2\ntraining finished\n")
    assert remat(tmp_path / "b.log")[0] == 0


def test_standard_input_is_read() -> None:
    status, out, _ = remat("-", stdin=FAILED)
    assert status == 1
    assert "fit.py:3" in out


def test_a_file_that_is_not_there_is_an_error_and_the_others_are_still_told(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(FAILED)
    status, out, err = remat(tmp_path / "no.log", tmp_path / "a.log")
    assert status == 2
    assert "ValueError" in out
    assert "no.log" in err


def test_a_folder_that_torchrun_wrote_is_one_run_with_the_ranks_of_its_folders(tmp_path: Path) -> None:
    closed = "RuntimeError: [/x/gloo/pair.cc:5] Connection closed by peer [127.0.0.1]:1."
    for rank, text in enumerate((FAILED.replace("ValueError: bad", closed), FAILED)):
        folder = tmp_path / "none_x" / "attempt_0" / str(rank)
        folder.mkdir(parents=True)
        (folder / "stderr.log").write_text(text)
    status, out, _ = remat("--output-format", "json", tmp_path)
    assert status == 1
    (report,) = json.loads(out)
    assert report["initiating_rank"] == 1
    assert [one["rank"] for one in report["collateral"]] == [0]
    assert [file["first_line"] for file in report["files"]] == [1, 5]


def test_utf_16_as_powershell_writes_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(FAILED.encode("utf-16"))
    assert remat(tmp_path / "a.log")[0] == 1


CODE = """\
from torch import nn
from torch.utils.checkpoint import checkpoint

block = nn.Linear(8, 8)


def step(x):
    return checkpoint(block, x).sum()
"""
NO_GRADIENT = """\
/opt/torch/utils/checkpoint.py:92: UserWarning: None of the inputs have requires_grad=True. Gradients will be None
Traceback (most recent call last):
  File "/cluster/job/train.py", line 12, in <module>
    step(x).backward()
RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn
"""


def test_the_linter_s_finding_that_explains_a_failure_is_shown_with_the_command_that_repairs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    _, out, _ = remat("-", stdin=NO_GRADIENT)
    assert f"{tmp_path / 'train.py'}:8: checkpoint-without-use-reentrant: " in out
    assert f"remat fix {tmp_path / 'train.py'}" in out
    (found,) = json.loads(remat("--output-format", "json", "-", stdin=NO_GRADIENT)[1])[0]["findings"]
    assert (found["code"], found["location"]["row"]) == ("checkpoint-without-use-reentrant", 8)


def test_where_the_code_is_not_here_only_the_log_speaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert json.loads(remat("--output-format", "json", "-", stdin=NO_GRADIENT)[1])[0]["findings"] == []


def attempt(folder: Path, number: int, outputs: dict[int, tuple[str, str]]) -> None:
    for rank, (out, err) in outputs.items():
        place = folder / "none_x" / f"attempt_{number}" / str(rank)
        place.mkdir(parents=True)
        (place / "stdout.log").write_text(out)
        (place / "stderr.log").write_text(err)


def test_what_a_rank_printed_before_it_failed_does_not_read_as_if_it_went_on(tmp_path: Path) -> None:
    attempt(tmp_path, 0, {0: ("step 0 loss 1.0\nstep 1 loss 0.9\n", ""), 1: ("step 0 loss 1.0\n", FAILED)})
    status, out, _ = remat("--output-format", "json", tmp_path)
    assert status == 1
    (report,) = json.loads(out)
    assert report["initiating_rank"] == 1


def test_a_folder_with_a_failed_attempt_and_one_that_ended_well_is_no_failure(tmp_path: Path) -> None:
    attempt(tmp_path, 0, {0: ("", FAILED), 1: ("", FAILED)})
    attempt(tmp_path, 1, {0: ("Training finished\n", ""), 1: ("Training finished\n", "")})
    assert remat(tmp_path)[0] == 0
    noticed = "E1130 08:16:20.815000 7 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: 1) "
    (tmp_path / "z_launcher.log").write_text(noticed + "local_rank: 1 (pid: 17263) of binary: /usr/bin/python3\n")
    assert remat(tmp_path)[0] == 0


def test_of_two_attempts_that_failed_alike_a_rank_is_told(tmp_path: Path) -> None:
    for number in (0, 1):
        attempt(tmp_path, number, {0: ("step 0 loss 1.0\nstep 1 loss 0.9\n", ""), 1: ("step 0 loss 1.0\n", FAILED)})
    status, out, _ = remat("--output-format", "json", tmp_path)
    assert status == 1
    (report,) = json.loads(out)
    assert (report["cause"]["id"], report["initiating_rank"]) == ("code.user_exception", 1)
    assert report["cause"]["lines"][-1] == 7  # of the first attempt, which the second does not explain


def test_markdown_holds_no_secret_no_mention_and_no_link_of_the_log(tmp_path: Path) -> None:
    said = (
        "ValueError: bad hf_AbCdEfGhIjKlMnOpQrStUv in /gpfs/home/alice_b/x, ask @octocat at https://evil.example ~~x~~"
    )
    (tmp_path / "a.log").write_text(FAILED.replace("ValueError: bad", said))
    out = remat("--output-format", "markdown", tmp_path / "a.log")[1].replace("\\", "")
    assert "ask @<!-- -->octocat" in out
    for part in ("hf_AbCd", "alice_b", "@octocat", "https://"):
        assert part not in out
