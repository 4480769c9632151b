"""Whether all that a checkpointed callable runs is visible in the file and holds no custom autograd Function.

Where it is, the reentrant and the non-reentrant variant give the same gradients, and a fix may change one to the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from remat.lint.code.callables import forward_of, functions_run
from remat.lint.code.definitions import class_places, definitions
from remat.lint.code.modules import CONTAINERS, constructors, held
from remat.lint.code.names import UNKNOWN, Scope
from remat.lint.code.source import At
from remat.lint.code.syntax import Function, dotted, parameters, walk

if TYPE_CHECKING:
    from remat.lint.code.source import Place, Source

_BUILTINS = frozenset("dict enumerate float int isinstance len list max min range reversed tuple zip".split())
_TENSOR_METHODS = frozenset(
    """abs add bfloat16 chunk clamp clone contiguous cos cumsum detach dim div exp expand expand_as flatten float
    half log masked_fill matmul mean mul new_zeros norm permute pow relu repeat reshape rsqrt sigmoid sin size
    softmax split sqrt square squeeze std sub sum t tanh to transpose tril triu type_as unbind unsqueeze var
    view view_as""".split()
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


def seen_whole(source: Source, callable_: cst.CSTNode, scope: Scope | None, place: Place) -> bool:
    """Whether each operation that `callable_` runs is torch's own, or in this file and made of such."""
    names = source.meanings(callable_, scope, place)
    if names and UNKNOWN not in names and all(_torch_operation(n) for n in names):
        return True
    if made := constructors(source, callable_, scope, place):
        return all(_module_seen(source, call) for call in made)
    found = functions_run(source, callable_, scope, place)
    return bool(found) and all(_body_seen(source, f) for f in found)


def _torch_operation(name: str) -> bool:
    return name.startswith("torch.") and not name.startswith(_RUNS_MORE)


def _module_seen(source: Source, made: At[cst.Call]) -> bool:
    """Whether the class that `made` constructs is torch.nn's, or in this file with a forward that is seen whole."""
    names = source.meanings(made.node.func, made.scope, made.place)
    if names & CONTAINERS:
        inside = held(source, At(made.node, made.scope, made.place))
        return bool(inside) and all(_module_seen(source, call) for call in inside or ())
    if names and all(n.startswith("torch.nn.") and _torch_operation(n) for n in names):
        arguments = (At(a.value, made.scope, made.place) for a in made.node.args if isinstance(a.value, cst.Call))
        return all(_module_seen(source, argument) for argument in arguments)
    forward = forward_of(source, made)
    return forward is not None and _is_plain_module(source, made) and _body_seen(source, forward)


def _is_plain_module(source: Source, made: At[cst.Call]) -> bool:
    """Whether calling the module is running its forward: nothing decorates it, and nn.Module is its only base."""
    for klass in definitions(source, made.node.func, made.scope, made.place):
        if not isinstance(klass.node, cst.ClassDef) or klass.node.decorators:
            return False
        bases = [source.meanings(b.value, klass.scope, klass.place) for b in klass.node.bases]
        if not bases or any(b != {"torch.nn.Module"} for b in bases):
            return False
        methods = (n for p in class_places(source, klass.place) for n in p.parsed.class_names)
        inner = (n.name.value for n in walk(klass.node.body) if isinstance(n, cst.FunctionDef))
        if "__call__" in {*methods, *inner}:
            return False
    return True


def _verdicts(_: Source) -> dict[int, bool]:
    """Function node id to whether its body is seen whole, for one version of a file."""
    return {}


def _body_seen(source: Source, function: At[Function]) -> bool:
    known = source.once(_verdicts)
    if id(function.node) not in known:
        known[id(function.node)] = False  # what it is while it is looked at: recursion is never seen whole
        inner = Scope(function.node, function.scope)
        local = {p.name.value for p in parameters(function.node)} | set(inner.bindings)
        calls = (node for node in walk(function.node.body) if isinstance(node, cst.Call))
        decorated = isinstance(function.node, cst.FunctionDef) and bool(function.node.decorators)
        known[id(function.node)] = not decorated and all(
            _call_seen(source, call, inner, function.place, local) for call in calls
        )
    return known[id(function.node)]


def _call_seen(source: Source, call: cst.Call, scope: Scope, place: Place, local: set[str]) -> bool:
    called = call.func
    if isinstance(called, cst.Name) and called.value in _BUILTINS and called.value not in local:
        return True
    if isinstance(called, cst.Attribute) and called.attr.value in _TENSOR_METHODS:
        parts = dotted(called)
        if not parts or parts[0] in local - {"self"}:
            return True
    return seen_whole(source, called, scope, place)
