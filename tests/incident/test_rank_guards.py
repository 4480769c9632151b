"""A collective that only some ranks call is seen in the code, and only where the code shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from remat.diagnose.report import Claim, Report
from remat.incident.code_paths import CodePaths, named_places
from remat.incident.rank_guards import KIND, explained_by_code, guarded

if TYPE_CHECKING:
    from pathlib import Path


def calls(text: str) -> list[tuple[str, int]]:
    return [(one.call, one.line) for one in guarded(text)]


@pytest.mark.parametrize(
    "guard",
    [
        "rank == 0",
        "dist.get_rank() == 0",
        "self.local_rank == 0",
        "args.rank != 0",
        "accelerator.is_main_process",
        "int(os.environ['RANK']) == 0",
    ],
)
def test_a_collective_under_a_guard_on_the_rank_is_seen(guard: str) -> None:
    assert calls(f"def f():\n    if {guard}:\n        save()\n        dist.barrier()\n") == [("dist.barrier()", 4)]


def test_a_collective_behind_an_early_return_is_seen() -> None:
    text = "def f():\n    if rank != 0:\n        return\n    save()\n    dist.barrier()\n"
    assert [(one.call, one.where) for one in guarded(text)] == [("dist.barrier()", "behind `if rank != 0: return`")]


@pytest.mark.parametrize(
    "text",
    [
        "if rank != 0:\n    dist.barrier()\nload()\nif rank == 0:\n    dist.barrier()\n",
        "if rank == 0:\n    dist.broadcast(x, 0)\nelse:\n    dist.broadcast(y, 0)\n",
        "if rank in members:\n    dist.all_reduce(x, group=members_group)\n",
        "if step % 10 == 0:\n    dist.barrier()\n",
        "if batch.index == 0:\n    dist.barrier()\n",
        "if self.lora.rank > 0:\n    dist.barrier()\n",
        "if self.rank > 0:\n    dist.barrier()\n",
        "if mode == 'rank':\n    dist.barrier()\n",
        "if rank == 0:\n    def later():\n        dist.barrier()\n",
        "if rank == 0:\n    x = gather(y)\n",
        "if rank == 0:\n    functools.partial(f, 1)\n",
        "if rank == 0:\n    dist.barrier(\n",
    ],
)
def test_what_every_rank_reaches_or_nobody_knows_is_left_alone(text: str) -> None:
    assert calls(text) == []


CODE = "def main(rank):\n    if rank == 0:\n        dist.barrier()\n    train()\n"
FRAME = 'File "/cluster/train.py", line 3, in main'


def told(tmp_path: Path, kind: str, frame: str) -> Report:
    (tmp_path / "train.py").write_text(CODE)
    report = Report(failed=True, cause=Claim(kind, "Rank 0 waited.", (7,)))
    code = CodePaths([str(tmp_path)])
    return explained_by_code(report, [(5, place) for place in named_places(frame)], code, lambda _: CODE)


def test_a_waiting_rank_s_frame_in_a_guard_explains_the_wait(tmp_path: Path) -> None:
    report = told(tmp_path, "nccl.timeout_undetermined", FRAME)
    assert report.cause is not None
    assert (report.cause.id, report.cause.lines) == (KIND, (5, 7))
    assert "`if rank == 0`" in report.cause.summary
    assert report.location is not None
    assert report.location.line == 3


def test_another_line_or_another_cause_stays_what_it_is(tmp_path: Path) -> None:
    for kind, frame in [("nccl.timeout_undetermined", FRAME.replace("3", "4")), ("mem.host_oom_kill", FRAME)]:
        cause = told(tmp_path, kind, frame).cause
        assert cause is not None
        assert cause.id == kind
