"""What a forward tells of inputs beyond the module that sees them: their share of a width, and which are indices."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from torch import nn

from remat.probe.target.statements import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remat.probe.batch.use import Use

_JOINS = {"cat", "concat", "concatenate"}
_BY_INDEX = {"index_add", "index_add_", "index_select", "index_copy", "index_copy_", "index_fill", "gather"}
_BY_INDEX |= {"scatter", "scatter_", "scatter_add", "scatter_add_", "scatter_reduce", "scatter_reduce_"}
_KEEPS = {"float", "to", "view", "reshape", "unsqueeze", "squeeze", "flatten", "contiguous", "type"}
UNKNOWN = -1


def with_neighbours(found: dict[str, Use], function: ast.FunctionDef, module: nn.Module) -> dict[str, Use]:
    """Add to what a forward does with its parameters what is beside them, and which are indices."""
    found = dict(found)
    for name, width in widths_beside(function, module).items():
        found[name] = replace(found[name], beside=width)
    for name, rows in indices(function).items():
        found[name] = replace(found[name], index=True, rows=rows)
    return found


def widths_beside(function: ast.FunctionDef, module: nn.Module) -> dict[str, int]:
    """Return, for a parameter joined with what modules make of others, how wide that is; UNKNOWN if none tells."""
    names = {argument.arg for argument in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)}
    values, first = _assigned(function)
    found: dict[str, int] = {}
    for parts in _joined(function):
        same = [(part.lineno, name) for part in parts if (name := _same(part)) in names and name is not None]
        plain = [name for line, name in same if first.get(name, line) >= line]
        if len(plain) != 1 or len(parts) == 1:
            continue
        others = [_width(values.get(_same(part) or "", part), module) for part in parts if _same(part) != plain[0]]
        widths = [width for width in others if width is not None]
        found.setdefault(plain[0], sum(widths) if len(widths) == len(others) else UNKNOWN)
    return found


def _assigned(function: ast.FunctionDef) -> tuple[dict[str, ast.expr], dict[str, int]]:
    """Return what names stand for at last, and the line where each stops to be what came in."""
    values: dict[str, ast.expr] = {}
    first: dict[str, int] = {}
    for node in (n for n in ast.walk(function) if isinstance(n, ast.Assign)):
        for name in (target.id for target in node.targets if isinstance(target, ast.Name)):
            values[name] = node.value
            first[name] = min(node.lineno, first.get(name, node.lineno))
    return values, first


def indices(function: ast.FunctionDef) -> dict[str, int | None]:
    """Return the parameters that tensors are indexed by; how many rows where each is taken by its number."""
    names = {argument.arg for argument in function.args.args[1:]}
    rows: dict[str, int | None] = {}
    for node in ast.walk(function):
        for index in _index_of(node):
            row = None
            inner = index
            if isinstance(index, ast.Subscript) and isinstance(index.slice, ast.Constant):
                inner, number = index.value, index.slice.value
                row = number + 1 if type(number) is int and number >= 0 else None
            if isinstance(inner, ast.Name) and inner.id in names:
                most = [n for n in (rows.get(inner.id), row) if n is not None]
                rows[inner.id] = max(most, default=None)
    return rows


def _index_of(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        yield from node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _BY_INDEX:
        start = 2 if dotted(node.func.value) == "torch" else 1
        yield from node.args[start : start + 1]
        yield from (keyword.value for keyword in node.keywords if keyword.arg == "index")


def _joined(function: ast.FunctionDef) -> Iterator[list[ast.expr]]:
    for node in ast.walk(function):
        joins = isinstance(node, ast.Call) and dotted(node.func).split(".")[-1] in _JOINS
        parts = node.args[0] if joins and isinstance(node, ast.Call) and node.args else None
        if isinstance(parts, ast.List | ast.Tuple):
            yield parts.elts


def _same(node: ast.expr) -> str | None:
    """Return the name whose data an expression is, reshaped or converted at most."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _KEEPS:
        return _same(node.func.value)
    return None


def _width(node: ast.expr, module: nn.Module) -> int | None:
    """Return how wide the result of a call of one of the model's modules is."""
    if not isinstance(node, ast.Call):
        return None
    first, *path = dotted(node.func).split(".")
    if first == "self" and path:
        held: object = module
        for name in path:
            held = getattr(held, name, None)
        return _made_by(held)
    inner = node.func.value if isinstance(node.func, ast.Attribute) and node.func.attr in _KEEPS else None
    return _width(inner, module) if inner is not None else None


def _made_by(module: object) -> int | None:
    if isinstance(module, nn.Embedding | nn.EmbeddingBag):
        return module.embedding_dim
    if isinstance(module, nn.Linear):
        return module.out_features
    if isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d):
        return module.out_channels
    if isinstance(module, nn.Sequential):
        made = (width for part in reversed(module) if (width := _made_by(part)) is not None)
        return next(made, None)
    return None
