"""Which Hugging Face class a variable holds, followed by name through a whole file: wrappers, functions, attributes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from remat.lint.code.definitions import definitions
from remat.lint.code.names import UNKNOWN, Scope
from remat.lint.code.source import At, Call
from remat.lint.code.syntax import dotted, walk_here
from remat.lint.kv_cache.hugging_face import model_class

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from remat.lint.code.source import Place
    from remat.lint.kv_cache.training_script import Script

_WRAPPERS = frozenset({"torch", "peft", "deepspeed", "accelerate", "fairscale", "lightning"})  # f(model) holds model
_SAME_OBJECT = frozenset(
    ["to", "cuda", "cpu", "half", "float", "bfloat16", "double", "train", "eval", "requires_grad_", "merge_and_unload"]
)
_INSIDE = frozenset({"module", "base_model", "model"})  # what a wrapper calls the model it holds
_MOST = 100  # expressions followed for one question


@dataclass(frozen=True, slots=True)
class Model:
    """A construction of a Hugging Face model."""

    cls: str
    call: Call


def models_of(script: Script, expression: cst.CSTNode, scope: Scope | None, place: Place) -> list[Model] | None:
    """Every construction that `expression` may hold; None where it may hold something that is not seen here."""
    found = list(_origins(script, At(expression, scope, place), None, "", set()))
    known = {id(model.call.node): model for model in found if model is not None}
    return None if None in found or not known else list(known.values())


def all_models(script: Script) -> list[Model]:
    """Every construction of a Hugging Face model in the file."""
    return [
        Model(cls, call)
        for call in script.meaning(lambda n: bool(_classes([n])))
        for cls in sorted(_classes(call.names))
    ]


def _classes(names: Iterable[str]) -> set[str]:
    return {cls for name in names if not name.startswith("peft.PeftModel") and (cls := model_class(name))}


def _origins(
    script: Script, at: At[cst.CSTNode], element: int | None, target: str, seen: set[int]
) -> Iterator[Model | None]:
    node = at.node
    if id(node) in seen or len(seen) > _MOST:
        return
    seen.add(id(node))
    if isinstance(node, cst.IfExp):
        for side in (node.body, node.orelse):
            yield from _origins(script, At(side, at.scope, at.place), element, target, seen)
    elif isinstance(node, cst.Tuple) and element is not None:
        if element < len(node.elements):
            yield from _origins(script, At(node.elements[element].value, at.scope, at.place), None, target, seen)
    elif isinstance(node, cst.Call):
        names = script.source.meanings(node.func, at.scope, at.place)
        yield from _of_call(script, Call(node, at.scope, at.place, names), element, target, seen)
    elif isinstance(node, cst.Name) and node.value == "None":
        return
    elif parts := dotted(node):
        yield from _of_name(script, parts, at, seen)
    else:
        yield None


def _of_call(script: Script, call: Call, element: int | None, target: str, seen: set[int]) -> Iterator[Model | None]:
    classes = _classes(call.names)
    if classes:
        yield from (Model(cls, call) for cls in sorted(classes))
        return
    inner = _held(call)
    if inner is not None:
        yield from _origins(script, At(inner, call.scope, call.place), None, target, seen)
        return
    functions = [
        At(at.node, at.scope, at.place)
        for at in definitions(script.source, call.node.func, call.scope, call.place)
        if isinstance(at.node, cst.FunctionDef)
    ]
    if functions:
        for function in functions:
            yield from _returned(script, function, element, target, seen)
    elif not target or not any(".".join(dotted(a.value)) == target for a in call.node.args):
        yield None  # `model = convert(model)` still holds what it held


def _held(call: Call) -> cst.BaseExpression | None:
    """What a wrapper's result holds: the first argument of `get_peft_model(…)`, the `x` of `x.to(device)`."""
    func = call.node.func
    named = next((a.value for name in ("model", "module") if (a := call.keyword(name))), None)
    first = named if named is not None else call.positional[0].value if call.positional else None
    if any(name.split(".")[0] in _WRAPPERS for name in call.names if name != UNKNOWN):
        return first
    if isinstance(func, cst.Attribute) and func.attr.value in _SAME_OBJECT:
        return func.value
    if isinstance(func, cst.Attribute) and func.attr.value in {"prepare", "prepare_model", "setup", "setup_module"}:
        return first
    return first if isinstance(func, cst.Name) and func.value == "getattr" else None


def _returned(
    script: Script, function: At[cst.FunctionDef], element: int | None, target: str, seen: set[int]
) -> Iterator[Model | None]:
    if id(function.node) in seen:
        return
    seen.add(id(function.node))
    inside = Scope(function.node, function.scope)
    for node in walk_here(function.node.body):
        if isinstance(node, cst.Return) and node.value is not None:
            yield from _origins(script, At(node.value, inside, function.place), element, target, seen)


def _of_name(script: Script, parts: list[str], at: At[cst.CSTNode], seen: set[int]) -> Iterator[Model | None]:
    while not (known := script.assigned(".".join(parts))) and len(parts) > 1 and parts[-1] in _INSIDE:
        parts = parts[:-1]
    target = ".".join(parts)
    here = [one for one in known if _same(one.scope, at.scope)]
    for some in (here, [one for one in known if not _same(one.scope, at.scope)]):
        being_followed = any(id(one.value) in seen for one in some)  # `model = wrap(model)`
        found = [
            origin
            for one in some
            for origin in _origins(script, At(one.value, one.scope, one.place), one.element, target, seen)
        ]
        if found or being_followed:
            yield from found
            return
    if not known:
        yield None


def _same(one: Scope | None, other: Scope | None) -> bool:
    return (one.node if one else None) is (other.node if other else None)
