"""Measures all ranks of a group on this machine: started through torchrun, heard, and ended together."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING

from remat.probe.processes import end as end_processes
from remat.probe.processes import end_started_by, lives
from remat.probe.ranks.gathered import Ending, gathered, says_another_is_gone
from remat.probe.ranks.spoken import FOLDER, PREFIX, ask_where, folder_name, heard, worker_of, write_request

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remat.probe.messages import Failure, Request, VariantResult
    from remat.probe.ranks.spoken import Heard

_WORKER = Path(__file__).parent.parent / "worker.py"
_TICK = 0.1
_TOGETHER = 1.5  # seconds in which the other ranks may fail alike
_MISSING = 15.0  # seconds in which torchrun tells which rank is gone
_TRACING = 120.0  # seconds that the steps which are traced may take once every rank has its figures
_SAYING = 0.4  # seconds to write where the code is
_LAST_WORDS = 400
_OF_A_LAUNCHER = ("PET_", "TORCHELASTIC_")  # how torchrun's options are given, and what it gives
_STATUS = re.compile(r"rank\s*: (?P<rank>\d+) \(local_rank: \d+\)\s+exitcode\s*: (?P<status>-?\d+) \(pid")


def measure_together(request: Request, size: int, seconds: float) -> VariantResult | Failure:
    """The real steps of the request's one variant on `size` ranks, each a process of its own on this machine.

    `seconds`: what is left of the request's limit.
    """
    (variant,) = request.variants
    until = time.monotonic() + seconds - _SAYING - 0.6  # whoever asked ends this process soon after
    with tempfile.TemporaryDirectory(prefix=folder_name(), ignore_cleanup_errors=True) as name:
        folder = Path(name)
        write_request(folder, replace(request, limits=replace(request.limits, seconds=seconds)))
        launcher = subprocess.Popen(  # noqa: S603 -- the interpreter that the user chose
            _command(folder, size),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            env=_environment(folder),
        )
        words: deque[str] = deque(maxlen=_LAST_WORDS)
        listening = threading.Thread(target=_overhear, args=(launcher.stdout, words), daemon=True)
        listening.start()
        try:
            in_time = _wait(folder, size, launcher, until)
            if not in_time:
                ask_where(heard(folder))
                time.sleep(_SAYING)
            ranks = heard(folder)
        finally:
            _end(launcher, folder)
        listening.join(1)
        text = "".join(words)
        statuses = {int(found["rank"]): int(found["status"]) for found in _STATUS.finditer(text)}
        ending = Ending(None if in_time else request.limits.seconds, statuses, text[-20_000:])
        return gathered(variant.name, ranks, size, ending)


def forget_folders() -> None:
    """Remove what a worker left that was ended while it measured."""
    if os.name != "posix":
        return
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError, ValueError):
            if not lives(worker_of(folder)) and folder.stat().st_uid == os.getuid():
                for file in sorted(folder.rglob("*"), reverse=True):
                    file.rmdir() if file.is_dir() else file.unlink()
                folder.rmdir()


def _command(folder: Path, size: int) -> list[str]:
    """As `torchrun --standalone` does, but met in a file: its store would listen on every address of the machine."""
    return [
        *(sys.executable, "-u", "-X", "utf8", "-m", "torch.distributed.run"),
        *("--nnodes=1", f"--nproc-per-node={size}", "--max-restarts=0", "--local-addr=127.0.0.1"),
        *("--rdzv-backend=c10d", f"--rdzv-endpoint={folder / 'meeting'}", "--rdzv-conf=store_type=file"),
        *("--rdzv-id=remat", f"--log-dir={folder / 'logs'}", str(_WORKER)),
    ]


def _environment(folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OF_A_LAUNCHER)}
    loopback = "lo0" if sys.platform == "darwin" else "lo"
    own = {FOLDER: str(folder), "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", "PYTHONUTF8": "1"}
    if os.name == "posix":
        own |= {"GLOO_SOCKET_IFNAME": loopback, "NCCL_SOCKET_IFNAME": loopback}
    return kept | own


def _wait(folder: Path, size: int, launcher: subprocess.Popen[str], until: float) -> bool:
    """Return once there is nothing more to hear; False where the time is over before."""
    failed_at = measured_at = None
    patience = _TOGETHER
    while (now := time.monotonic()) < until:
        has_ended = launcher.poll() is not None
        ranks = heard(folder)
        if has_ended or (len(ranks) == size and all(one.is_done for one in ranks)):
            return True
        if any(one.failure for one in ranks):
            failed_at = failed_at or now
            patience = _MISSING if all(says_another_is_gone(one) for one in ranks if one.failure) else _TOGETHER
        if len(ranks) == size and all(one.result for one in ranks):
            measured_at = measured_at or now
        if (failed_at and now - failed_at > patience) or (measured_at and now - measured_at > _TRACING):
            return True
        time.sleep(_TICK)
    return _all_measured(heard(folder), size)


def _all_measured(ranks: list[Heard], size: int) -> bool:
    return len(ranks) == size and all(one.result for one in ranks)


def _end(launcher: subprocess.Popen[str], folder: Path) -> None:
    """Ranks are in groups of their own, as torchrun starts them."""
    end_started_by(launcher.pid)
    launcher.wait()
    for one in heard(folder):
        end_processes(one.pid)


def _overhear(pipe: IO[str] | None, words: deque[str]) -> None:
    """What is printed goes on to this process's standard error, where its own words go."""
    for line in _lines(pipe):
        words.append(line)
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(line)


def _lines(pipe: IO[str] | None) -> Iterator[str]:
    """A line without an end is cut, so that what is printed can't fill this process's memory."""
    if pipe is not None:
        with contextlib.suppress(ValueError, OSError):
            while line := pipe.readline(4096):
                yield line
