"""What reading a log costs: CPU seconds and memory for millions of lines, and for selections of 5,000 lines.

    python bench/diagnose.py

The logs are made: 64 ranks that train, warn and recover from errors in a random order, then one that fails, its peers'
NCCL timeouts and the launcher's list. Each long log is read by a process of its own; the best of three is printed.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parent.parent / "server"))

from remat.diagnose.diagnose import diagnose

RANKS, BAD = 64, 37
NOISE = (
    "NCCL INFO Channel {n:02d}/0 : {rank}[c5000] -> {n}[29000] via NET/IB/0/GDRDMA",
    "INFO dataloader: shard {n}/512 opened",
    "UserWarning: The given buffer is not writable",
    "DEBUG grad bucket {n} reduced in 12.5 ms",
    "WARNING: HTTP 503 from storage, retrying (1/5)",
    "INFO tokens/s 11400.5 mem 61.2GiB/79.1GiB max_error=0.00{n}",
)
RECOVERED = """\
Traceback (most recent call last):
  File "/workspace/data.py", line 55, in read
    return self.client.get(key)
ConnectionError: [Errno 104] Connection reset by peer
INFO: shard fetched on attempt 2"""
FAILED = """\
Traceback (most recent call last):
  File "/workspace/train.py", line 184, in main
    out = model(**batch)
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 5 has a total capacity of 79.15 GiB of \
which 1.02 GiB is free. Including non-PyTorch memory, this process has 78.11 GiB memory in use. Of the allocated \
memory 75.90 GiB is allocated by PyTorch, and 1.30 GiB is reserved by PyTorch but unallocated."""
TIMEOUT = (
    "[rank{rank}]:[E321 03:42:15.411000000 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective "
    "operation timeout: WorkNCCL(SeqNum=812345, OpType=ALLREDUCE, NumelIn=25557032, NumelOut=25557032, "
    "Timeout(ms)=600000) ran for 600053 milliseconds before timing out."
)


def write_log(path: Path, lines: int, seed: int) -> None:
    """A training run of `RANKS` ranks that ends with rank `BAD` out of memory."""
    draw = random.Random(seed)
    peers = [rank for rank in range(RANKS) if rank != BAD]
    with path.open("w", encoding="utf-8") as file:
        written, step = 0, 0
        while written < lines - 3 * RANKS:
            rank, kind = draw.randrange(RANKS), draw.random()
            if kind < 0.72:
                step += rank == 0
                text = f"step {step:>7}/400000 | loss {2.5 + draw.random() / 25:.4f} | lr 2.9e-05 | tok/s 11400"
            elif kind < 0.985:
                text = draw.choice(NOISE).format(n=draw.randint(1, 99), rank=rank)
            else:
                text = RECOVERED
            written += _write(file, rank, text)
        written += _write(file, BAD, FAILED)
        for rank in draw.sample(peers, len(peers)):
            file.write(TIMEOUT.format(rank=rank) + "\n")
        file.write(
            "E0321 03:42:19.64 1 torch/x/api.py:870] failed (exitcode: 1) local_rank: 5 (pid: 9037) of binary: p\n"
        )


def _write(file: object, rank: int, text: str) -> int:
    rows = text.split("\n")
    file.writelines(f"[rank{rank}]: {row}\n" for row in rows)
    return len(rows)


def read_once(path: str) -> None:
    """Read one log, and print what it cost as JSON."""
    start = time.process_time()
    with Path(path).open(encoding="utf-8") as lines:
        report = diagnose(lines)
    print(
        json.dumps(
            {
                "cpu": time.process_time() - start,
                "mebibytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                "rank": report.initiating_rank,
                "collateral": len(report.collateral),
            }
        )
    )


def long_log(folder: Path, lines: int) -> None:
    path = folder / f"{lines}.log"
    write_log(path, lines, seed=lines)
    runs = [
        json.loads(subprocess.run([sys.executable, __file__, "--read", path], capture_output=True, check=True).stdout)
        for _ in range(3)
    ]
    best = min(runs, key=lambda run: run["cpu"])
    right = all(run["rank"] == BAD and run["collateral"] == RANKS - 1 for run in runs)
    size = path.stat().st_size / 1e6
    print(f"| {lines:,} | {size:.0f} | {best['cpu']:.1f} | {best['mebibytes']:.0f} | {'yes' if right else 'NO'} |")
    path.unlink()


def selections(folder: Path, count: int) -> None:
    """What the editor asks for: up to 5,000 lines, as one text."""
    times = []
    for seed in range(count):
        path = folder / "selection.log"
        write_log(path, 5_000, seed)
        text = path.read_text(encoding="utf-8")
        start = time.process_time()
        report = diagnose(text)
        times.append(1000 * (time.process_time() - start))
        assert report.initiating_rank == BAD
    times.sort()
    print(f"5,000 lines: p50 {statistics.median(times):.0f} ms, p95 {times[int(0.95 * len(times)) - 1]:.0f} ms CPU")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--read", metavar="LOG", help=argparse.SUPPRESS)
    parser.add_argument("--lines", type=int, nargs="*", default=[1_000_000, 2_000_000])
    given = parser.parse_args()
    if given.read:
        read_once(given.read)
        return
    with TemporaryDirectory() as folder:
        selections(Path(folder), 40)
        print("| lines | MB | CPU s | MiB | right rank, every peer |\n|---|---|---|---|---|")
        for lines in given.lines:
            long_log(Path(folder), lines)


if __name__ == "__main__":
    main()
