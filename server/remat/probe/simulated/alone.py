"""A process that trains alone and yet asks torch.distributed: it finds a group of itself."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_ASSUMED = "torch.distributed is asked and no process group was started: one process is pretended (--world-size N)"


@contextlib.contextmanager
def group_of_one(assume: Callable[[str], None]) -> Iterator[None]:
    """Inside it the default process group is made when it is first asked for; `is_initialized()` says no until then."""
    if not torch.distributed.is_available():
        yield
        return
    c10d = torch.distributed.distributed_c10d
    ask, begin = c10d._get_default_group, c10d.init_process_group
    begun = []

    def default_group() -> object:
        if not c10d.is_initialized():
            from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: PLC0415 -- it takes a second

            assume(_ASSUMED)
            begin("fake", store=FakeStore(), rank=0, world_size=1)
            begun.append(True)
        return ask()

    c10d._get_default_group = default_group
    try:
        yield
    finally:
        c10d._get_default_group = ask
        if begun and c10d.is_initialized():
            c10d.destroy_process_group()
