"""The default dtype that a script sets before it makes a model: its tensors, and those of its forward, have it."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from remat.probe.target.call_sites import sites
from remat.probe.target.packages import text_of
from remat.probe.target.scopes import evaluate_in
from remat.probe.target.statements import dotted

if TYPE_CHECKING:
    from remat.probe.target.call_sites import Site
    from remat.probe.target.loading import File

_SETS = "set_default_dtype"
_usual: dict[str, torch.dtype] = {}
"""what the default was before a model of this process changed it"""


@dataclass(frozen=True, slots=True)
class DefaultDtype:
    dtype: torch.dtype
    said: str


def default_dtype(callee: object, file: File) -> DefaultDtype | None:
    """Return what scripts beside the file set before they call `callee`; nothing where two of them differ."""
    beside = [file.path, *(p for p in file.path.parent.glob("*.py") if p.is_file())]
    if not any(_SETS in text_of(path) for path in beside):
        return None
    found = [dtype for site in sites(callee, file) if (dtype := _set_before(site)) is not None]
    return found[0] if len({f.dtype for f in found}) == 1 else None


def enter(wanted: DefaultDtype | None) -> None:
    """Make it the default of this process until the next model is made."""
    if wanted is None and "dtype" not in _usual:
        return
    _usual.setdefault("dtype", torch.get_default_dtype())
    torch.set_default_dtype(_usual["dtype"] if wanted is None else wanted.dtype)


def _set_before(site: Site) -> DefaultDtype | None:
    calls = (n for scope in site.scopes for n in ast.walk(scope) if isinstance(n, ast.Call) and n.args)
    before = [c for c in calls if dotted(c.func).endswith(_SETS) and c.lineno < site.call.lineno]
    if not before:
        return None
    try:
        dtype = evaluate_in(site.file, before[-1].args[0], site.scopes)
    except (Exception, SystemExit):  # noqa: BLE001  (any code of the user's)
        return None
    said = f"the default dtype is {dtype}, as {site.file.path}:{before[-1].lineno} sets it"
    return DefaultDtype(dtype, said) if isinstance(dtype, torch.dtype) else None
