"""Whether a name that is bound anew comes to hold something else, as far as the code shows."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING

import libcst as cst

from remat.lint.closures.backward import last_name
from remat.lint.closures.captures import Path, Read, bound_paths, reads
from remat.lint.closures.rebinding import Cause, Loop, Rebinding, bound_by_a_turn, gives_one_thing
from remat.lint.code.syntax import dotted, walk, walk_here

if TYPE_CHECKING:
    from collections.abc import Iterable

_VARIES = re.compile(r"^(?:rand|normal|uniform|bernoulli|multinomial|sample|choice|shuffle|next$|pop|dropout)")
_KEEPS_VALUE = re.compile(r"^(?:contiguous|clone|detach|to|cpu|cuda|requires_grad_|float|half|bfloat16|type|type_as)$")
_COMPARED = 8  # earlier values of a name, each a whole expression
_PASSES = 8  # through assignments that depend on each other; more is no style anybody has
METADATA = frozenset({"shape", "dtype", "device", "ndim", "requires_grad", "is_cuda", "training", "layout"})
_METADATA_CALLS = frozenset({"size", "dim", "numel", "stride"})
ABOUT = frozenset({"len", "type", "isinstance", "hasattr", "id"})


def changes(rebinding: Rebinding, known: Iterable[cst.BaseExpression | None]) -> bool:
    """Whether the name is bound to another value, as far as the code shows. `known`: what it was bound to before."""
    if rebinding.cause is Cause.LOOP:
        return True
    if rebinding.value is None:  # a `for` further down, or a function that is made anew
        return isinstance(rebinding.node, cst.For)
    if isinstance(rebinding.node, cst.AugAssign):
        return True
    if rebinding.cause is Cause.OWN:
        return True
    if _keeps_value(rebinding.value, rebinding.path) or dotted(rebinding.value) == ["None"]:
        return False
    if rebinding.loop is not None:
        return _depends(rebinding.value, varying(rebinding.loop)) or rebinding.path in _loop_targets(rebinding.loop)
    return not any(v is not None and v.deep_equals(rebinding.value) for v in islice(known, _COMPARED))


def _keeps_value(value: cst.BaseExpression, path: Path) -> bool:
    """`x.contiguous()`, `mask.to(device)` for the name itself."""
    if tuple(dotted(value)) == path:
        return True
    if isinstance(value, cst.IfExp):
        return _keeps_value(value.body, path) and _keeps_value(value.orelse, path)
    called = value.func if isinstance(value, cst.Call) else None
    return (
        isinstance(called, cst.Attribute)
        and bool(_KEEPS_VALUE.search(called.attr.value))
        and _keeps_value(called.value, path)
    )


@lru_cache(64)
def varying(loop: Loop) -> frozenset[Path]:
    """The names that hold something else in each turn of `loop`, as far as its code shows."""
    assigned = [b for b in bound_by_a_turn(loop) if not isinstance(b.node, cst.FunctionDef)]
    found = set(_loop_targets(loop))
    found |= {b.path for b in assigned if isinstance(b.node, cst.AugAssign)}
    for _ in range(_PASSES):
        for b in assigned:
            if b.value is not None and not _keeps_value(b.value, b.path) and _depends(b.value, found | {b.path}):
                found.add(b.path)
    return frozenset(found)


def _loop_targets(loop: Loop) -> set[Path]:
    loops = [n for n in (loop, *walk_here(loop.body)) if isinstance(n, cst.For)]
    return {p for at in loops if not gives_one_thing(at.iter) for p in bound_paths(at.target)}


def _depends(value: cst.BaseExpression, on: Iterable[Path]) -> bool:
    """Whether `value` is computed from one of these names, not only from a shape or dtype of theirs."""
    names = frozenset(on)
    for read in reads(value):
        found = any(read.path[:n] in names for n in range(1, len(read.path) + 1))
        if found and not tells_metadata(read, value):
            return True
    return any(isinstance(n, cst.Call) and _VARIES.search(last_name(n)) for n in walk(value))


def covers(path: Path, read: Read) -> bool:
    """Whether binding `path` anew changes what `read` finds."""
    return read.path[: len(path)] == path


def tells_metadata(read: Read, inside: cst.CSTNode) -> bool:
    """Whether all that is read is a shape, dtype or the like: `x.shape`, `x.size(0)`, `len(x)`."""
    if any(part in METADATA | _METADATA_CALLS for part in read.path[1:]):
        return True
    calls = (n for n in walk(inside) if isinstance(n, cst.Call) and isinstance(n.func, cst.Name))
    return any(c.func.value in ABOUT and any(a.value is read.node for a in c.args) for c in calls)  # type: ignore[attr-defined]
