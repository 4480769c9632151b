"""Reads the source of a `forward` for what it does with each of its parameters first."""

from __future__ import annotations

import ast
import inspect
import textwrap
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

from torch import nn

from remat.probe.statements import dotted

if TYPE_CHECKING:
    from remat.probe.calls import Callee

# Modules that leave the shape of what they are given to the next one.
_PASSED = (nn.Identity, nn.Dropout, nn.ReLU, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid, nn.LeakyReLU)
_DEEPEST = 12


@dataclass(frozen=True, slots=True)
class Use:
    """What a forward does with one parameter."""

    rank: int | None = None
    """how many sizes it unpacks"""
    consumer: nn.Module | None = None
    """the module with weights that sees it first"""
    flattened: bool = False
    """it is flattened before"""
    keys: tuple[str, ...] = ()
    """entries it is asked for, where it is a mapping"""


@dataclass(slots=True)
class _Reading:
    """The state of reading one forward: what each local name stands for."""

    module: nn.Module
    of: dict[str, str] = field(default_factory=dict)
    """local name -> parameter"""
    modules: dict[str, nn.Module] = field(default_factory=dict)
    """local name -> module (`for block in self.blocks`)"""
    found: dict[str, Use] = field(default_factory=dict)
    depth: int = 0


def uses(module: nn.Module, depth: int = 0) -> dict[str, Use]:
    """Return what `module.forward` does with each parameter; nothing for one whose source isn't to be had."""
    function = _function(real_forward(module))
    if function is None or depth > _DEEPEST:
        return {}
    return _uses_in(function, module, depth)


def _uses_in(function: ast.FunctionDef, module: nn.Module, depth: int) -> dict[str, Use]:
    names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]
    reading = _Reading(module, {name: name for name in names[1:]}, depth=depth)
    reading.found = {name: Use() for name in names[1:]}
    for statement in function.body:
        _read(reading, statement)
    return reading.found


def real_forward(module: nn.Module) -> Callee[object]:
    """Return the method that takes the inputs by name: forward, or the one that it hands everything on to."""
    forward = cast("Callee[object]", module.forward)
    function = _function(forward)
    if function is None or function.args.args[1:] or function.args.vararg is None:
        return forward
    for call in ast.walk(function):
        star = isinstance(call, ast.Call) and call.args and isinstance(call.args[0], ast.Starred)
        if star and isinstance(call, ast.Call) and dotted(call.func).startswith("self."):
            method = getattr(module, dotted(call.func).removeprefix("self."), None)
            if method is not None:
                return real_forward(method) if isinstance(method, nn.Module) else cast("Callee[object]", method)
    return forward


def first_with_weights(module: nn.Module, depth: int = 0) -> nn.Module | None:
    """Return the module that sees the first argument of `module` first, as its source tells, else by order."""
    if _is_leaf(module):
        return module
    if isinstance(module, nn.Sequential | nn.ModuleList):
        inner = next((child for child in module if not isinstance(child, _PASSED) and _has_weights(child)), None)
        return first_with_weights(inner, depth + 1) if inner is not None else None
    use = next(iter(uses(module, depth + 1).values()), None)
    if use is not None and use.consumer is not None:
        return use.consumer
    return next((part for part in module.modules() if _is_leaf(part)), None)


def _is_leaf(module: nn.Module) -> bool:
    return _has_weights(module) and (
        type(module).__module__.startswith("torch.nn.modules") and not isinstance(module, nn.Sequential | nn.ModuleList)
    )


def _has_weights(module: nn.Module) -> bool:
    return next(module.parameters(), None) is not None


def _function(forward: Callee[object]) -> ast.FunctionDef | None:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(forward))))
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    return next((node for node in tree.body if isinstance(node, ast.FunctionDef)), None)


def _read(reading: _Reading, node: ast.stmt) -> None:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return
    if isinstance(node, ast.For):
        _loop(reading, node)
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            _calls(reading, child)
    if isinstance(node, ast.Assign):
        _assign(reading, node)
    for name in ("body", "orelse", "finalbody"):
        for inner in getattr(node, name, []):
            _read(reading, inner)


def _loop(reading: _Reading, node: ast.For) -> None:
    """`for block in self.blocks` and `for i, block in enumerate(self.blocks)`."""
    iterated, target = node.iter, node.target
    if isinstance(iterated, ast.Call) and iterated.args:
        iterated = iterated.args[0]
        target = target.elts[-1] if isinstance(target, ast.Tuple) else target
    container = _module(reading, iterated)
    first = next(iter(container.children()), None) if container is not None else None
    if first is not None and isinstance(target, ast.Name):
        reading.modules[target.id] = first


def _calls(reading: _Reading, node: ast.expr) -> None:
    """Note calls from the inside out, as they run."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            _calls(reading, child)
        elif isinstance(child, ast.keyword):
            _calls(reading, child.value)
    if isinstance(node, ast.Call):
        _call(reading, node)
    elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and isinstance(node.slice, ast.Constant):
        parameter = reading.of.get(node.value.id)
        if parameter is not None and isinstance(node.slice.value, str):
            use = reading.found[parameter]
            reading.found[parameter] = replace(use, keys=tuple(dict.fromkeys((*use.keys, node.slice.value))))


def _call(reading: _Reading, node: ast.Call) -> None:
    name = dotted(node.func)
    if name.split(".")[-1] == "checkpoint" and node.args:  # the function comes first
        node = ast.Call(node.args[0], node.args[1:], node.keywords)
    callee = _module(reading, node.func)
    own = _own_method(reading, name) if callee is None else {}
    given = [(index, argument) for index, argument in enumerate(node.args)]
    for index, argument in given:
        parameter = _parameter(reading, argument)
        if parameter is None or reading.found[parameter].consumer is not None:
            continue
        if callee is not None:
            consumer = _consumer_inside(callee, index, None, reading.depth)
            reading.found[parameter] = replace(reading.found[parameter], consumer=consumer)
        elif own:
            inner = next(iter(list(own.values())[index : index + 1]), Use())
            reading.found[parameter] = replace(inner, keys=reading.found[parameter].keys)
        elif name.endswith("flatten"):
            reading.found[parameter] = replace(reading.found[parameter], flattened=True)
    for keyword in node.keywords:
        parameter = _parameter(reading, keyword.value)
        if parameter is not None and callee is not None and reading.found[parameter].consumer is None:
            consumer = _consumer_inside(callee, 0, keyword.arg, reading.depth)
            reading.found[parameter] = replace(reading.found[parameter], consumer=consumer)


def _own_method(reading: _Reading, name: str) -> dict[str, Use]:
    """Return what `self.method(...)` does with its parameters."""
    method = getattr(type(reading.module), name.removeprefix("self."), None) if name.startswith("self.") else None
    function = _function(method) if method is not None and reading.depth < _DEEPEST else None
    return {} if function is None else _uses_in(function, reading.module, reading.depth + 1)


def _consumer_inside(callee: nn.Module, index: int, keyword: str | None, depth: int) -> nn.Module | None:
    if index == 0 and keyword is None:
        return first_with_weights(callee, depth + 1)
    inner = uses(callee, depth + 1)
    name = keyword if keyword is not None else next(iter(list(inner)[index : index + 1]), None)
    return inner[name].consumer if name in inner else None


def _assign(reading: _Reading, node: ast.Assign) -> None:
    target, value = node.targets[0], node.value
    if isinstance(target, ast.Tuple):
        parameter = _sized(reading, value)
        if (
            parameter is not None
            and reading.found[parameter].rank is None
            and reading.found[parameter].consumer is None
        ):
            reading.found[parameter] = replace(reading.found[parameter], rank=len(target.elts))
        return
    if not isinstance(target, ast.Name):
        return
    container = _module(reading, value)
    if container is not None:
        reading.modules[target.id] = container
    parameter = _parameter(reading, value)
    if parameter is not None:  # `x = x.view(...)`: still the same data
        reading.of[target.id] = parameter
    elif target.id in reading.of:
        del reading.of[target.id]


def _sized(reading: _Reading, value: ast.expr) -> str | None:
    """`x` of `x.shape` and `x.size()`."""
    if isinstance(value, ast.Call) and not value.args:
        value = value.func
    if isinstance(value, ast.Attribute) and value.attr in {"shape", "size"}:
        return _parameter(reading, value.value)
    return None


def _parameter(reading: _Reading, node: ast.expr) -> str | None:
    """Return the parameter whose data an expression is, reshaped or converted at most."""
    if isinstance(node, ast.Name):
        return reading.of.get(node.id)
    if isinstance(node, ast.BinOp):  # `2 * x - 1` has the shape of x
        return _parameter(reading, node.left) or _parameter(reading, node.right)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        parameter = _parameter(reading, node.func.value)
        if parameter is not None and node.func.attr in {"view", "reshape", "flatten"}:
            if reading.found[parameter].consumer is None:
                reading.found[parameter] = replace(reading.found[parameter], flattened=True)
            return parameter
        return parameter if node.func.attr in {"to", "float", "long", "contiguous", "type", "cuda", "half"} else None
    if isinstance(node, ast.Call) and dotted(node.func).endswith("flatten") and node.args:
        return _parameter(reading, node.args[0])
    return None


def _module(reading: _Reading, node: ast.expr) -> nn.Module | None:
    """Return the module an expression names: `self.a.b`, `self.a[0]`, `self.a["b"]`, a loop's variable."""
    if isinstance(node, ast.Name):
        return reading.module if node.id == "self" else reading.modules.get(node.id)
    if isinstance(node, ast.Attribute):
        held = _module(reading, node.value)
        found = getattr(held, node.attr, None) if held is not None else None
        return found if isinstance(found, nn.Module) else None
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant | ast.Name):
        held = _module(reading, node.value)
        key = node.slice.value if isinstance(node.slice, ast.Constant) else 0
        try:
            return cast("nn.Module", held[key])  # type: ignore[index]
        except (TypeError, KeyError, IndexError, NotImplementedError):
            return None
    return None
