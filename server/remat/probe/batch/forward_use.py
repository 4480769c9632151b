"""Reads the source of a `forward` for what it does with each of its parameters first."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace
from typing import cast

from torch import nn

from remat.probe.batch.expressions import is_conversion, moves_last, side_by_side
from remat.probe.batch.forward_source import real_forward, source_of
from remat.probe.batch.neighbours import with_neighbours
from remat.probe.batch.use import Use
from remat.probe.target.statements import dotted

# Modules that leave the shape of what they are given to the next one.
_PASSED = (nn.Identity, nn.Dropout, nn.ReLU, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid, nn.LeakyReLU)
_NORMS = (nn.GroupNorm, nn.LayerNorm, nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.InstanceNorm2d)
_DEEPEST = 12
_OF_PICTURES = 4  # axes
_SAME_DATA = {"to", "float", "long", "contiguous", "type", "cuda", "half", "clone", "detach", "type_as"}
_TURNS = {"permute", "transpose", "t", "movedim", "swapaxes"}


@dataclass(slots=True)
class _Reading:
    """The state of reading one forward: what each local name stands for."""

    module: nn.Module
    of: dict[str, str] = field(default_factory=dict)
    """local name -> parameter"""
    modules: dict[str, nn.Module] = field(default_factory=dict)
    """local name -> module (`for block in self.blocks`)"""
    found: dict[str, Use] = field(default_factory=dict)
    groups: list[tuple[str, ...]] = field(default_factory=list)
    """parameters that are put side by side"""
    depth: int = 0


def uses(module: nn.Module, depth: int = 0) -> dict[str, Use]:
    """Return what `module.forward` does with each parameter; nothing for one whose source isn't to be had."""
    function = source_of(real_forward(module))
    if function is None or depth > _DEEPEST:
        return {}
    return _uses_in(function, module, depth)


def _uses_in(function: ast.FunctionDef, module: nn.Module, depth: int) -> dict[str, Use]:
    names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]
    reading = _Reading(module, {name: name for name in names[1:]}, depth=depth)
    reading.found = {name: Use() for name in names[1:]}
    for statement in function.body:
        _read(reading, statement)
    for group in reading.groups:
        consumer = reading.found[group[0]].consumer
        spread = any(reading.found[name].spread for name in group)
        for name in group:
            reading.found[name] = replace(
                reading.found[name], consumer=consumer, joined=group, spread_beside=spread and len(group) == 2
            )
    return with_neighbours(reading.found, function, module)


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
    leaves = [part for part in module.modules() if _is_leaf(part)]
    return next((part for part in leaves if not isinstance(part, _NORMS)), next(iter(leaves), None))


def _is_leaf(module: nn.Module) -> bool:
    return _has_weights(module) and (
        type(module).__module__.startswith("torch.nn.modules") and not isinstance(module, nn.Sequential | nn.ModuleList)
    )


def _has_weights(module: nn.Module) -> bool:
    return next(module.parameters(), None) is not None


def _read(reading: _Reading, node: ast.stmt) -> None:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return
    if isinstance(node, ast.For):
        _loop(reading, node)
    _insisted(reading, node)
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
            _seen_by(reading, parameter, callee, index, None)
        elif own:
            inner = next(iter(list(own.values())[index : index + 1]), Use())
            reading.found[parameter] = replace(inner, keys=reading.found[parameter].keys)
        elif name.endswith("flatten"):
            reading.found[parameter] = replace(reading.found[parameter], flattened=True)
    for keyword in node.keywords:
        parameter = _parameter(reading, keyword.value)
        if parameter is not None and callee is not None and reading.found[parameter].consumer is None:
            _seen_by(reading, parameter, callee, 0, keyword.arg)


def _insisted(reading: _Reading, node: ast.stmt) -> None:
    """Note how many axes are insisted on: `if x.ndim != 3: raise …`, `assert len(x.shape) == 4`."""
    raises = isinstance(node, ast.If) and isinstance(node.body[-1], ast.Raise)
    if not isinstance(node, ast.Assert) and not raises:
        return
    wanted = ast.Eq if isinstance(node, ast.Assert) else ast.NotEq
    for compare in (n for n in ast.walk(node.test) if isinstance(n, ast.Compare)):  # type: ignore[attr-defined]
        number, parameter = compare.comparators[0], _axes_of(reading, compare.left)
        known = isinstance(number, ast.Constant) and type(number.value) is int and isinstance(compare.ops[0], wanted)
        use = reading.found[parameter] if parameter is not None else Use(changed=True)
        if parameter is not None and known and not use.changed and use.rank is None:
            reading.found[parameter] = replace(use, rank=cast("int", cast("ast.Constant", number).value))


def _axes_of(reading: _Reading, node: ast.expr) -> str | None:
    """`x` of `x.ndim`, `x.dim()` and `len(x.shape)`."""
    if isinstance(node, ast.Call) and dotted(node.func) == "len" and node.args:
        return _sized(reading, node.args[0])
    if isinstance(node, ast.Call) and not node.args:
        node = node.func
    if isinstance(node, ast.Attribute) and node.attr in {"ndim", "dim"}:
        return _parameter(reading, node.value)
    return None


def _own_method(reading: _Reading, name: str) -> dict[str, Use]:
    """Return what `self.method(...)` does with its parameters."""
    method = getattr(type(reading.module), name.removeprefix("self."), None) if name.startswith("self.") else None
    function = source_of(method) if method is not None and reading.depth < _DEEPEST else None
    return {} if function is None else _uses_in(function, reading.module, reading.depth + 1)


def _seen_by(reading: _Reading, parameter: str, callee: nn.Module, index: int, keyword: str | None) -> None:
    """Note the module that a parameter is handed to, and what that finds out about it."""
    use = reading.found[parameter]
    inner = {} if _is_leaf(callee) else uses(callee, reading.depth + 1)
    name = keyword if keyword is not None else next(iter(list(inner)[index : index + 1]), None)
    there = inner.get(name, Use()) if name is not None else Use()
    consumer = there.consumer
    if consumer is None and index == 0 and keyword is None:
        consumer = first_with_weights(callee, reading.depth + 1)
    rank = use.rank if use.rank is not None or use.changed else there.rank
    reading.found[parameter] = replace(
        use,
        consumer=consumer,
        rank=rank,
        flattened=use.flattened or there.flattened,
        turned=use.turned or there.turned,
        last_turned=use.last_turned or there.last_turned,
        added=use.added + there.added,
        beside=use.beside or there.beside,
    )


def _assign(reading: _Reading, node: ast.Assign) -> None:
    target, value = node.targets[0], node.value
    if isinstance(target, ast.Tuple):
        parameter = _sized(reading, value)
        if (
            parameter is not None
            and reading.found[parameter].rank is None
            and reading.found[parameter].consumer is None
            and not reading.found[parameter].changed
            and not any(isinstance(e, ast.Starred) for e in target.elts)
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
    elif target.id in reading.of and not is_conversion(value, target.id):
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
        if parameter is not None:
            return parameter if _reshaped(reading, parameter, node) else None
    if isinstance(node, ast.Call) and dotted(node.func).split(".")[-1] in {"flatten", "cat", "concat"} and node.args:
        if isinstance(node.args[0], ast.List | ast.Tuple) and side_by_side(node):
            parts = tuple(dict.fromkeys(p for e in node.args[0].elts if (p := _parameter(reading, e)) is not None))
            if len(parts) > 1 and all(parts[0] not in group for group in reading.groups):
                reading.groups.append(parts)
        return _parameter(reading, node.args[0])
    if isinstance(node, ast.List | ast.Tuple):  # `[image1, image2]`, to be seen as one
        return next((p for p in (_parameter(reading, e) for e in node.elts) if p is not None), None)
    return None


def _reshaped(reading: _Reading, parameter: str, call: ast.Call) -> bool:
    """Note what a method does to the sizes of a parameter; tell whether the result still is its data."""
    name, use = cast("ast.Attribute", call.func).attr, reading.found[parameter]
    if name in {"repeat", "expand"} and use.flattened and use.consumer is None and len(call.args) == _OF_PICTURES:
        reading.found[parameter] = replace(use, spread=True)
        return True
    if name not in {"view", "reshape", "flatten", "unsqueeze", *_SAME_DATA, *_TURNS}:
        return False
    if name == "unsqueeze" and use.consumer is None:
        reading.found[parameter] = replace(use, added=use.added + 1)
        return True
    if use.consumer is None and name in _TURNS:
        rank = len(call.args) if name == "permute" and len(call.args) > 1 else use.rank
        last = use.last_turned or (not use.flattened and moves_last(name, call))
        rank = use.rank if use.changed else rank
        reading.found[parameter] = replace(use, rank=rank, changed=True, turned=True, last_turned=last)
    elif use.consumer is None and name not in _SAME_DATA:
        reading.found[parameter] = replace(use, flattened=True, changed=True)
    return True


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
