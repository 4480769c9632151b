"""CPU seconds of `remat check` and of TorchFix over the same files, in turn, in one run.

    python bench/against_torchfix.py --torchfix PATH/TO/bin/torchfix [FOLDER …]

TorchFix pins an old libcst, so it needs an environment of its own: `python -m venv …; pip install torchfix==0.7.0`.
FOLDER: where the files come from; the installed transformers by default. 300 files that import torch are taken, at
least 160 of them with words that Remat has to look at, by a fixed seed.
"""

from __future__ import annotations

import argparse
import importlib.util
import random
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

WORDS = (b"checkpoint", b"use_reentrant", b"use_cache")
FILES, WITH_WORDS = 300, 160
SIZES = range(2_000, 200_000)


def chosen(folders: list[Path]) -> list[Path]:
    imports, worded = [], []
    for path in sorted(p for folder in folders for p in folder.rglob("*.py") if p.is_file()):
        data = path.read_bytes()
        if len(data) in SIZES and (b"import torch" in data or b"from torch" in data):
            (worded if any(word in data for word in WORDS) else imports).append(path)
    draw = random.Random(300)
    first = draw.sample(worded, min(WITH_WORDS, len(worded)))
    taken = set(first)
    rest = [p for p in worded + imports if p not in taken]
    return first + draw.sample(rest, min(FILES - len(first), len(rest)))


def cpu_seconds(command: list[str]) -> float:
    """User and system time of the command and all its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    parser.add_argument("--torchfix", required=True)
    parser.add_argument("--remat", default=str(Path(sys.executable).with_name("remat")))
    parser.add_argument("--runs", type=int, default=1, help="of TorchFix; Remat runs once before and after each")
    args = parser.parse_args()
    spec = importlib.util.find_spec("transformers")
    installed = [Path(spec.origin).parent] if spec and spec.origin else []
    files = chosen(args.folders or installed)
    with tempfile.TemporaryDirectory() as name:
        for number, path in enumerate(files):
            shutil.copyfile(path, Path(name) / f"{number:03}_{path.name}")
        remat, torchfix = [], []
        for _ in range(args.runs):
            remat.append(cpu_seconds([args.remat, "check", "--output-format", "json", name]))
            torchfix.append(cpu_seconds([args.torchfix, "--select", "ALL", name]))
            remat.append(cpu_seconds([args.remat, "check", "--output-format", "json", name]))
    ours, theirs = sum(remat) / len(remat), sum(torchfix) / len(torchfix)
    with_words = sum(any(word in p.read_bytes() for word in WORDS) for p in files)
    print(f"{len(files)} files that import torch, {with_words} of them with words Remat looks at")
    print(f"remat check     {ours:8.2f} s CPU")
    print(f"torchfix        {theirs:8.2f} s CPU")
    print(f"ratio           {theirs / ours:8.1f}")


if __name__ == "__main__":
    main()
