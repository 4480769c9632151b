"""Results as the device lays them out: some operators leave other strides, and so other storages, on CUDA."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from torch import _meta_registrations
from torch._subclasses.fake_tensor import FakeTensorMode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remat.probe.messages import Device

_HINT = "device_hint"
_cached_for: list[Device] = []
"""the device whose layouts the cache of fakes holds, which all modes share; empty before the first"""


@contextlib.contextmanager
def layouts_of(device: Device) -> Iterator[None]:
    """Inside it meta functions that ask where a fake lies (`device_hint`, torch 2.1 to 2.13) hear of this device.

    cuSOLVER's right singular vectors lie row by row, LAPACK's column by column: their first rows are a view on CUDA,
    which keeps all of them, and a copy on the CPU. Convolutions, FFTs and embedding bags differ, too.
    """
    if _cached_for != [device]:
        FakeTensorMode.cache_clear()
        _cached_for[:] = [device]
    kept = getattr(_meta_registrations, _HINT, None)
    if device == "cpu" or kept is None:
        yield
        return
    setattr(_meta_registrations, _HINT, lambda _tensor: "cuda")
    try:
        yield
    finally:
        setattr(_meta_registrations, _HINT, kept)
