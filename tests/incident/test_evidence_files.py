"""Files that a log names as its own are found; those outside the workspace wait for permission."""

from __future__ import annotations

from pathlib import Path

from remat.incident.evidence_files import evidence, noted


def named(*lines: str) -> list[str]:
    names: dict[str, None] = {}
    assert list(noted(lines, names)) == list(lines)
    return list(names)


def test_the_files_that_torchrun_nccl_and_slurm_announce_are_noted() -> None:
    assert named(
        "  error_file: /tmp/torchelastic_x1/none_y/attempt_0/3/error.json",
        "[rank3]: Dumping flight recorder to /tmp/nccl_trace_rank_3",
        "log in logs/attempt_0/0/stderr.log.",
        "sbatch wrote slurm-8812_3.out",
        "error_file: <N/A>, see /x/error.json5",
    ) == [
        "/tmp/torchelastic_x1/none_y/attempt_0/3/error.json",  # noqa: S108 - a text
        "/tmp/nccl_trace_rank_3",  # noqa: S108
        "logs/attempt_0/0/stderr.log",
        "slurm-8812_3.out",
    ]


def test_an_error_file_brings_what_its_rank_printed_and_missing_files_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "attempt_0" / "3"
    folder.mkdir(parents=True)
    (folder / "error.json").write_text("{}")
    (folder / "stderr.log").write_text("")
    found = evidence(["attempt_0/3/error.json", "gone/error.json"], [str(tmp_path)], lambda _: False, ())
    assert [Path(one.path).name for one in found] == ["error.json", "stderr.log"]
    assert not any(one.read for one in found)
    assert evidence(["attempt_0/3/stderr.log"], [str(tmp_path)], lambda _: True, {str(folder / "stderr.log")}) == []
