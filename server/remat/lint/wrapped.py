"""Whether all that a checkpointed callable runs is visible in the file and holds no custom autograd Function.

Where it is, the reentrant and the non-reentrant variant give the same gradients, and a fix may change one to the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from remat.lint.callables import forward_of, functions_run
from remat.lint.modules import CONTAINERS, constructors, held
from remat.lint.names import UNKNOWN, Scope
from remat.lint.source import At
from remat.lint.syntax import Function, dotted, parameters, walk

if TYPE_CHECKING:
    from remat.lint.source import Place, Source

_DEPTH = 6  # callables inside callables; deeper nests are called unseen
_BUILTINS = frozenset(
    {
        "range",
        "len",
        "enumerate",
        "zip",
        "reversed",
        "isinstance",
        "int",
        "float",
        "tuple",
        "list",
        "dict",
        "min",
        "max",
    }
)
_TENSOR_METHODS = frozenset(
    [
        "abs",
        "add",
        "chunk",
        "clamp",
        "clone",
        "contiguous",
        "cos",
        "cumsum",
        "detach",
        "dim",
        "div",
        "exp",
        "expand",
        "expand_as",
        "flatten",
        "float",
        "half",
        "log",
        "masked_fill",
        "matmul",
        "mean",
        "mul",
        "norm",
        "permute",
        "pow",
        "relu",
        "repeat",
        "reshape",
        "rsqrt",
        "sigmoid",
        "sin",
        "size",
        "softmax",
        "split",
        "sqrt",
        "square",
        "squeeze",
        "std",
        "sub",
        "sum",
        "t",
        "tanh",
        "to",
        "transpose",
        "tril",
        "triu",
        "type_as",
        "unbind",
        "unsqueeze",
        "var",
        "view",
        "view_as",
        "bfloat16",
        "new_zeros",
    ]
)
# Functions that run custom code, and SyncBatchNorm: a custom autograd Function that communicates at each recomputation
_RUNS_MORE = (
    "torch.autograd.",
    "torch.utils.",
    "torch.ops.",
    "torch.distributed",
    "torch.compile",
    "torch.nn.SyncBatchNorm",
)


def seen_whole(source: Source, callable_: cst.CSTNode, scope: Scope | None, place: Place, depth: int = _DEPTH) -> bool:
    """Whether each operation that `callable_` runs is torch's own, or in this file and made of such."""
    if not depth:
        return False
    names = source.meanings(callable_, scope, place)
    if names and UNKNOWN not in names and all(_torch_operation(n) for n in names):
        return True
    if made := constructors(source, callable_, scope, place):
        return all(_module_seen(source, call, depth - 1) for call in made)
    found = functions_run(source, callable_, scope, place)
    return bool(found) and all(_body_seen(source, f, depth - 1) for f in found)


def _torch_operation(name: str) -> bool:
    return name.startswith("torch.") and not name.startswith(_RUNS_MORE)


def _module_seen(source: Source, made: At[cst.Call], depth: int) -> bool:
    """Whether the class that `made` constructs is torch.nn's, or in this file with a forward that is seen whole."""
    if not depth:
        return False
    names = source.meanings(made.node.func, made.scope, made.place)
    if names & CONTAINERS:
        inside = held(source, At(made.node, made.scope, made.place))
        return bool(inside) and all(_module_seen(source, call, depth - 1) for call in inside or ())
    if names and all(n.startswith("torch.nn.") and _torch_operation(n) for n in names):
        return all(
            not isinstance(a.value, cst.Call) or _module_seen(source, At(a.value, made.scope, made.place), depth - 1)
            for a in made.node.args
        )
    forward = forward_of(source, made)
    return forward is not None and _body_seen(source, forward, depth - 1)


def _body_seen(source: Source, function: At[Function], depth: int) -> bool:
    inner = Scope(function.node, function.scope)
    local = {p.name.value for p in parameters(function.node)} | set(inner.bindings)
    return all(
        _call_seen(source, node, inner, function.place, local, depth)
        for node in walk(function.node.body)
        if isinstance(node, cst.Call)
    )


def _call_seen(source: Source, call: cst.Call, scope: Scope, place: Place, local: set[str], depth: int) -> bool:
    called = call.func
    if isinstance(called, cst.Name) and called.value in _BUILTINS and called.value not in local:
        return True
    if isinstance(called, cst.Attribute) and called.attr.value in _TENSOR_METHODS:
        parts = dotted(called)
        if not parts or parts[0] in local - {"self"}:
            return True
    return seen_whole(source, called, scope, place, depth - 1)
