"""Ranks that really run together, through torchrun over gloo: what they take, and what is said of one that fails."""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from asking import failure, write

from remat.probe import run
from remat.probe.measured.measurable import CannotMeasureError, refuse_missing_gpus
from remat.probe.messages import Failure, Limits, Location, Request, Variant, VariantResult
from remat.probe.processes import lives
from remat.probe.ranks.gathered import Ending, gathered
from remat.probe.ranks.launched import forget_folders
from remat.probe.ranks.spoken import PREFIX, Heard

if TYPE_CHECKING:
    from remat.probe.messages import Event

HERE = Path(__file__).parent

OWN = """
import os
import pathlib
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from real_ranks import Net, sharded

def heard_from():
    listening = set()
    for name in ("tcp", "tcp6"):
        rows = [row.split() for row in pathlib.Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
        listening |= {(row[9], row[1]) for row in rows if row[3] == "0A"}
    own = {os.path.realpath(f"/proc/{pid}/fd/{fd}")
           for pid in (os.getpid(), os.getppid()) for fd in os.listdir(f"/proc/{pid}/fd")}
    return [address for inode, address in listening if any(f"socket:[{inode}]" in one for one in own)]

class Listening(Net):
    def forward(self, tokens):
        if dist.is_initialized() and dist.get_world_size() == 2 and "REMAT_RANKS" in os.environ:
            pathlib.Path(f"listens-{dist.get_rank()}").write_text(" ".join(heard_from()))
        return super().forward(tokens)

def plain():  # remat: probe(batch=4, seq=32)
    return Listening()

def wrapped():  # remat: probe(batch=4, seq=32)
    dist.init_process_group("nccl")
    return DDP(Net())

def raises():  # remat: probe(batch=4, seq=32)
    if os.environ.get("RANK") == "1":
        raise ValueError("no data for this rank")
    return Net()

def dies():  # remat: probe(batch=4, seq=32)
    if os.environ.get("RANK") == "1":
        os.kill(os.getpid(), 9)
    return Net()

def waits():  # remat: probe(batch=4, seq=32)
    if "REMAT_RANKS" in os.environ and os.environ["RANK"] == "0":
        dist.barrier()
    return Net()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ranks")
    write(folder, own=OWN)
    (folder / "real_ranks.py").write_text((HERE / "real_ranks.py").read_text("utf-8"), "utf-8")
    return folder


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REMAT_CACHE_DIR", str(tmp_path / "cache"))


def request(folder: Path, name: str, sharding: str = "none", seconds: float = 120) -> Request:
    variant = Variant("variant", "none", world_size=2, sharding=sharding)
    return Request(f"own.py:{name}", (variant,), str(folder), "cpu", mode="measure", limits=Limits(seconds))


def measured(folder: Path, name: str, sharding: str = "none", seconds: float = 120) -> list[Event]:
    return list(run.run(request(folder, name, sharding, seconds), sys.executable))


def both(events: list[Event]) -> tuple[VariantResult, VariantResult]:
    """The estimate, and what came."""
    found = [event for event in events if isinstance(event, VariantResult)]
    assert [one.kind for one in found] == ["estimated", "measured"], events
    return found[0], found[1]


def test_ranks_of_fully_shard_take_what_was_estimated_and_what_gloo_keeps_and_nothing_listens_outside(
    folder: Path,
) -> None:
    told, came = both(measured(folder, "plain", "fsdp2"))
    assert [one.rank for one in came.ranks] == [0, 1]
    assert came.allocated_bytes == max(one.allocated_bytes for one in came.ranks)
    took = [one.allocated_bytes for one in came.ranks]
    # gloo's threads keep buffers that the estimate doesn't know, and may give back one of its own before the peak
    assert told.allocated_bytes * 0.995 <= min(took), (told.allocated_bytes, took)
    assert max(took) <= told.allocated_bytes * 1.3, (told.allocated_bytes, took)
    assert came.by_category["parameters"] == told.by_category["parameters"]
    assert came.step_seconds is not None
    assert came.step_seconds_range is not None
    assert 0 < came.step_seconds_range.low <= came.step_seconds <= came.step_seconds_range.high
    assert any("really sent, over gloo" in text for text in came.assumptions)
    if sys.platform == "linux":
        addresses = [a for rank in (0, 1) for a in (folder / f"listens-{rank}").read_text("utf-8").split()]
        assert [a for a in addresses if not a.startswith("0100007F:")] == []


def test_a_model_that_the_code_wraps_in_ddp_takes_what_was_estimated(folder: Path) -> None:
    told, came = both(measured(folder, "wrapped"))
    assert came.allocated_bytes == pytest.approx(told.allocated_bytes, rel=0.005)
    assert {item.class_name for item in came.by_module if item.module == "blocks.*"} == {"Block"}
    assert any("the code asks for nccl: gloo was used" in text for text in came.assumptions)


def test_the_rank_that_raises_is_named_with_its_line(folder: Path) -> None:
    said = failure(measured(folder, "raises"))
    assert said.message == "rank 1 of 2: ValueError: no data for this rank; the others were ended"
    assert said.location is not None
    assert Path(folder / "own.py").read_text("utf-8").splitlines()[said.location.line - 1].strip().startswith("raise ")


def test_the_rank_that_is_ended_from_outside_is_named_with_what_ended_it(folder: Path) -> None:
    assert "rank 1 of 2 ended by SIGKILL" in failure(measured(folder, "dies")).message


def test_ranks_that_wait_for_each_other_are_stopped_and_where_each_was_is_told(folder: Path) -> None:
    for seconds in (30, 90):  # a busy machine needs longer until both wait
        said = failure(measured(folder, "waits", seconds=seconds))
        if "rank 0 was at measure, " in said.message:
            break
    assert said.message.startswith(f"stopped after {seconds} s, the limit: rank 0 was at measure, ")
    assert said.location is not None
    assert "dist.barrier()" in Path(said.location.path).read_text("utf-8").splitlines()[said.location.line - 1]


def test_ranks_that_are_cancelled_end_and_leave_nothing(folder: Path) -> None:
    worker = run.start(sys.executable, folder, mode="measure")
    heard: list[Event] = []
    listening = threading.Thread(target=lambda: heard.extend(run.ask(worker, request(folder, "waits"))))
    listening.start()
    until = time.monotonic() + 60
    while len(ranks := pids(worker.process.pid)) < 2 and time.monotonic() < until:
        time.sleep(0.1)
    run.cancel(worker)
    listening.join(20)
    run.end(worker)
    assert [event.message for event in heard if isinstance(event, Failure)] == ["cancelled"]
    until = time.monotonic() + 10
    while any(map(lives, ranks)) and time.monotonic() < until:
        time.sleep(0.1)
    assert len(ranks) == 2
    assert not any(map(lives, ranks))
    forget_folders()
    assert folders(worker.process.pid) == []


def folders(worker: int) -> list[Path]:
    from tempfile import gettempdir  # noqa: PLC0415

    return list(Path(gettempdir()).glob(f"{PREFIX}{worker}-*"))


def pids(worker: int) -> list[int]:
    files = [file for folder in folders(worker) for file in folder.glob("*.events")]
    return [int(file.stem.partition("-")[2]) for file in files]


# ---- what is made of what they say


def test_more_ranks_than_gpus_are_refused_with_what_is_there() -> None:
    refuse_missing_gpus(2, 2)
    with pytest.raises(CannotMeasureError, match=r"measuring 8 ranks on cuda needs 8 GPUs.*; 2 are here") as caught:
        refuse_missing_gpus(8, 2)
    assert "--world-size 2" in caught.value.how
    assert "several machines are not measured" in caught.value.how
    with pytest.raises(CannotMeasureError, match="1 is here"):
        refuse_missing_gpus(2, 1)


GONE = Failure(
    "v", "measure", "RuntimeError: [gloo/transport/tcp/pair.cc:537] Connection reset by peer", Location("a.py", 3)
)
WRONG = Failure("v", "measure", "ValueError: no", Location("a.py", 7))


def told(ranks: list[Heard], **ending: object) -> Failure:
    came = gathered("v", ranks, 2, Ending(**ending))  # type: ignore[arg-type]
    assert isinstance(came, Failure)
    return came


def test_a_rank_that_misses_another_is_not_the_cause() -> None:
    first, second = Heard(0, 1, failure=GONE, at=1.0), Heard(1, 2, failure=WRONG, at=2.0)
    assert told([first, second]).message == "rank 1 of 2: ValueError: no; the others were ended"
    silent = Heard(1, 2, stage="measure", place=Location("a.py", 9))
    said = told([first, silent], statuses={0: -15, 1: -11})
    assert said.message.startswith("rank 1 of 2 ended by SIGSEGV during measure; the code was at a.py:9")


def test_what_every_rank_says_is_said_once() -> None:
    said = told([Heard(0, 1, failure=WRONG), Heard(1, 2, failure=replace(WRONG))])
    assert said.message == "ValueError: no (on each of the 2 ranks)"


def test_a_launcher_that_ends_before_its_ranks_begin_is_quoted() -> None:
    said = told([], last_words="torchrun: no such option\n")
    assert "0 of 2 ranks had begun" in said.message
    assert said.message.endswith("it said: torchrun: no such option")
