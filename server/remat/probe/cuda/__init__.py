"""What CUDA does that fakes on the CPU don't: kernels it would choose, their scratch, workspaces."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from remat.probe.optimizers import cuda_defaults

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from remat.probe.trace import Trace


@contextlib.contextmanager
def cuda_effects(
    trace: Trace,
    gpu: str | None,  # noqa: ARG001
) -> Iterator[Callable[[str, tuple[object, ...], object], tuple[int, int]]]:
    with cuda_defaults():
        yield lambda *_: (0, 0)
