"""What a training script really takes on the CPU, run whole in a process of its own, and what the probe says of it."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from remat.probe.answering import Answers
from remat.probe.messages import Request, Variant, VariantResult
from remat.probe.target.resolve import resolve

if TYPE_CHECKING:
    from pathlib import Path

_RUN = """
import runpy, sys, torch
from torch.profiler import ProfilerActivity, profile
torch.set_num_threads(1)
with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
    runpy.run_path(sys.argv[1], run_name="__main__")
alive = most = 0
events = (e for e in seen.profiler.kineto_results.events() if e.name() == "[memory]")
for event in sorted(events, key=lambda e: e.start_ns()):
    alive += event.nbytes()
    most = max(most, alive)
print("PEAK", most)
"""

HEAD = """
import copy
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

class Rows(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return torch.randn(256), index % 7

class Net(nn.Module):
    def __init__(self, width=384, depth=4, classes=7):
        super().__init__()
        self.first = nn.Linear(256, width)
        self.body = nn.Sequential(*(nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(depth)))
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.body(self.first(x)))

"""
LOOP = """
    loss_of = nn.CrossEntropyLoss()
    loader = DataLoader(Rows(), batch_size=16, shuffle=True)
    for step, (x, y) in enumerate(loader):
        loss = loss_of(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step == 1:
            break
"""


def script(*lines: str, loop: str = LOOP) -> str:
    """One that trains `Net` as `lines` have it; the last of them makes the optimizer."""
    body = "\n".join(f"    {line}" for text in lines for line in text.splitlines())
    return f"{HEAD}\ndef main():\n{body}\n{loop}\nif __name__ == '__main__':\n    main()\n"


def peak_of(path: Path) -> int:
    """The most bytes alive at once from its start to its end."""
    done = subprocess.run(
        [sys.executable, "-c", _RUN, str(path)], capture_output=True, text=True, check=False, cwd=path.parent
    )
    found = [line for line in done.stdout.splitlines() if line.startswith("PEAK ")]
    assert found, done.stderr[-2000:]
    return int(found[-1].split()[1])


def probed(path: Path, name: str | None = None, **settings: object) -> VariantResult:
    target = resolve(path.name if name is None else f"{path.name}:{name}", str(path.parent))
    variant = Variant("v", **settings)  # type: ignore[arg-type]
    (event,) = Answers(target, Request(path.name, (variant,), device="cpu")).of(variant, target, lambda: None)
    assert isinstance(event, VariantResult)
    return event
