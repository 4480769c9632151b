"""Asks a worker about files written for one test."""

from __future__ import annotations

import sys
import textwrap
from typing import TYPE_CHECKING

from remat.probe import run
from remat.probe.messages import Failure, Limits, Request, Variant, VariantResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import TypeAlias

    from remat.probe.messages import Event, Missing

    Ask: TypeAlias = Callable[..., list[Event]]

LINEAR = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        return self.linear(x)
"""


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(text).lstrip(), "utf-8")


def ask(folder: Path, target: str, seconds: float = 120, memory: int | None = None, **variant: object) -> list[Event]:
    """Run a worker of its own, as one process may load a file once."""
    wanted = Variant("variant", **variant)  # type: ignore[arg-type]
    request = Request(target, (wanted,), str(folder), limits=Limits(seconds, memory))
    return list(run.run(request, sys.executable))


def warm() -> Iterator[Ask]:
    """Yield a function that asks one worker: files of its requests must differ in their names."""
    workers: list[run.Worker] = []

    def ask_warm(folder: Path, target: str, **variant: object) -> list[Event]:
        if not workers:
            workers.append(run.start(sys.executable, folder))
        wanted = Variant("variant", **variant)  # type: ignore[arg-type]
        return list(run.ask(workers[0], Request(target, (wanted,), str(folder), limits=Limits(120))))

    yield ask_warm
    for worker in workers:
        run.end(worker)


def result(events: list[Event]) -> VariantResult:
    found = [event for event in events if isinstance(event, VariantResult)]
    assert found, [event for event in events if isinstance(event, Failure)]
    return found[0]


def failure(events: list[Event]) -> Failure:
    (found,) = [event for event in events if isinstance(event, Failure)]
    return found


def missing(ask: Ask, folder: Path, target: str) -> Missing:
    """Ask; return the fact that is missing."""
    found = failure(ask(folder, target)).missing
    assert found is not None
    return found
