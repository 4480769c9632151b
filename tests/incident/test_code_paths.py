"""The file that a log names is found on this machine, or honestly not."""

from __future__ import annotations

from pathlib import Path

import pytest

from remat.incident.code_paths import CodePaths, Named, named_places


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    for name in ("job/train.py", "job/models/block.py", "other/models/block.py", ".venv/lib/deep.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    return tmp_path


def found(workspace: Path, path: str, cwd: str | None = None) -> str | None:
    result = CodePaths([str(workspace)], cwd and str(workspace / cwd)).find(path)
    return None if result is None else Path(result).relative_to(workspace).as_posix()


@pytest.mark.parametrize(
    "path", ["/mnt/cluster/alice/job/train.py", "train.py", "job/train.py", r"D:\work\job\train.py"]
)
def test_a_path_of_another_machine_is_the_workspace_s_file_with_the_same_end(workspace: Path, path: str) -> None:
    assert found(workspace, path) == "job/train.py"


def test_where_two_files_could_be_meant_none_is(workspace: Path) -> None:
    assert found(workspace, "/elsewhere/models/block.py") is None
    assert found(workspace, "/elsewhere/job/models/block.py") == "job/models/block.py"


def test_a_relative_path_is_meant_from_where_the_run_was_started(workspace: Path) -> None:
    assert found(workspace, "models/block.py", cwd="other") == "other/models/block.py"


@pytest.mark.parametrize("path", ["<string>", "", "/usr/lib/python3.11/site-packages/x/train.py", "deep.py", "a\0b"])
def test_what_is_no_file_of_the_workspace_is_not_found(workspace: Path, path: str) -> None:
    assert found(workspace, path) is None


def test_a_file_that_exists_as_named_is_taken_as_named(workspace: Path) -> None:
    assert found(workspace, str(workspace / "other" / "models" / "block.py")) == "other/models/block.py"


def test_frames_of_python_of_pytest_and_of_rich_are_named_places() -> None:
    assert list(named_places('  File "/a b/x.py", line 7, in f')) == [Named(8, 26, "/a b/x.py", 7)]
    assert [(one.path, one.line) for one in named_places("tests/test_x.py:12: AssertionError")] == [
        ("tests/test_x.py", 12)
    ]
    assert [(one.path, one.line) for one in named_places("│ /w/train.py:61 in step  │")] == [("/w/train.py", 61)]
    assert list(named_places("at 12:30:01 loss.py is fine")) == []
