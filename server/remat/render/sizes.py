"""Sizes of memory and places in files, as people say them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from remat.probe.messages import Range


def size(value: float) -> str:
    """A number of bytes as people say it, in binary units."""
    for unit, step in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if value >= step:
            return f"{value / step:.1f} {unit}"
    return f"{int(value)} B"


def between(given: Range | None) -> str:
    """`1.2 to 1.9 GiB`, or one size where both ends are the same."""
    if given is None:
        return ""
    if given.low == given.high:
        return size(given.low)
    high = size(given.high)
    unit = {"GiB": 2**30, "MiB": 2**20, "KiB": 2**10}.get(high.rpartition(" ")[2], 1)
    return f"{given.low / unit:.1f} to {high}"


def short_path(path: str) -> str:
    """Relative to the current folder, where it is inside; of an installed package from the package on."""
    _, installed, inner = path.replace("\\", "/").rpartition("/site-packages/")
    if installed:
        return inner
    try:
        relative = os.path.relpath(path) if os.path.isabs(path) else path  # noqa: PTH117
    except ValueError:  # on another drive
        return path
    return path if relative.startswith(os.pardir) else relative
