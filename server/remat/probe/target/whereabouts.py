"""Where a script makes its model: the name it gets, what is put around it at once, and the statements that follow."""

from __future__ import annotations

import ast
import copy
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from remat.probe.target.scopes import scopes_around
from remat.probe.target.statements import dotted
from remat.probe.target.wrappers import wrapped_by

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remat.probe.target.scopes import Scope

_CHAINED = ("to", "cuda", "cpu", "half", "float", "bfloat16", "double", "train", "eval", "requires_grad_")
PLACE = "__remat_made__"
"""the name of what was made, in the expression around it"""


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """`name`: what the model is called from here on; empty where nobody keeps it. `value`: what it becomes at once, of
    `PLACE`. `after`: the statements that follow, in the order of their blocks. `body`: of the function around them.
    """

    tree: ast.Module
    call: ast.Call
    scopes: list[Scope]
    name: str
    value: ast.expr
    after: list[ast.stmt]
    body: list[ast.stmt]
    is_returned: bool = False


def same_call(tree: ast.Module, call: ast.Call) -> ast.Call | None:
    """The call of another reading of the same file."""
    place = (call.lineno, call.col_offset, call.end_lineno, call.end_col_offset)
    calls = (n for n in ast.walk(tree) if isinstance(n, ast.Call))
    return next((n for n in calls if (n.lineno, n.col_offset, n.end_lineno, n.end_col_offset) == place), None)


def whereabouts(tree: ast.Module, call: ast.Call) -> Whereabouts | None:
    """None where it is no part of an assignment, nor returned."""
    path = next(_paths(tree, call, ()), None)
    if path is None:
        return None
    owners = [n for n in path if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.Module)]
    inside = path[path.index(owners[-1]) :]
    statement = next(n for n in reversed(inside) if isinstance(n, ast.stmt))
    pair = _named(statement, call)
    if pair is None:
        return None
    name, value = pair
    scopes = scopes_around(tree, call)
    after = [s for block in reversed(list(_blocks(inside))) for s in block]
    returned = isinstance(statement, ast.Return)
    return Whereabouts(tree, call, scopes, name, _with_place(value, call), after, owners[-1].body, returned)


def _paths(node: ast.AST, call: ast.Call, path: tuple[ast.AST, ...]) -> Iterator[tuple[ast.AST, ...]]:
    if node is call:
        yield path
        return
    for child in ast.iter_child_nodes(node):
        yield from _paths(child, call, (*path, node))


def _blocks(inside: tuple[ast.AST, ...]) -> Iterator[list[ast.stmt]]:
    """What follows the model in each block around it, the outermost first: what follows a loop comes after training."""
    for place, (outer, inner) in enumerate(itertools.pairwise(inside)):
        if not isinstance(inner, ast.stmt):
            return
        block = next((b for b in _bodies(outer) if inner in b), [])
        in_loop = any(isinstance(n, ast.For | ast.While) for n in inside[place + 1 :])
        yield [] if in_loop else block[block.index(inner) + 1 :] if block else []


def _bodies(node: ast.AST) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody", "handlers"):
        found = getattr(node, name, None)
        if isinstance(found, list):
            yield found


def _named(statement: ast.stmt, call: ast.Call) -> tuple[str, ast.expr] | None:
    if isinstance(statement, ast.Return) and statement.value is not None:
        return "", statement.value
    if isinstance(statement, ast.AnnAssign) and statement.value is not None:
        return dotted(statement.target), statement.value
    if not isinstance(statement, ast.Assign):
        return None
    target, value = statement.targets[0], statement.value
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        pairs = zip(target.elts, value.elts, strict=True)
        return next(((dotted(t), v) for t, v in pairs if any(n is call for n in ast.walk(v))), None)
    return (dotted(target), value) if dotted(target) else None


def _with_place(value: ast.expr, call: ast.Call) -> ast.expr:
    """What stands around the call, alone: the parts of an expression that chooses are not all the model's."""
    inner: ast.expr = value
    while isinstance(inner, ast.IfExp | ast.BoolOp):
        parts = [inner.body, inner.orelse] if isinstance(inner, ast.IfExp) else inner.values
        inner = next((p for p in parts if any(n is call for n in ast.walk(p))), call)
    if inner is call:
        return ast.copy_location(ast.Name(PLACE, ast.Load()), call)
    copied = copy.deepcopy(inner, {id(call): ast.copy_location(ast.Name(PLACE, ast.Load()), call)})
    return ast.fix_missing_locations(copied)


def origin(tree: ast.Module, call: ast.Call) -> ast.Call:
    """The call that makes what `call` only wraps, moves or adapts: `Net(3)` of `tuned = get_peft_model(model)`.

    Itself, where there is no other.
    """
    inner = _inside_of(call)
    if isinstance(inner, ast.Call):
        return origin(tree, inner)
    if isinstance(inner, ast.Name | ast.Attribute):
        before = [n for n in ast.walk(tree) if isinstance(n, ast.Assign) and n.lineno < call.lineno]
        around = [s for s in scopes_around(tree, call) if not isinstance(s, ast.If)]
        made = [
            n.value
            for n in before
            if dotted(n.targets[0]) == dotted(inner)
            and isinstance(n.value, ast.Call)
            and [s for s in scopes_around(tree, n) if not isinstance(s, ast.If)] == around
        ]
        if made:
            return origin(tree, max(made, key=lambda n: n.lineno))
    return call


def _inside_of(call: ast.Call) -> ast.expr | None:
    if wrapped_by(call) is not None:
        return wrapped_by(call)
    if isinstance(call.func, ast.Attribute) and call.func.attr in _CHAINED and isinstance(call.func.value, ast.Call):
        return call.func.value
    return call.args[0] if dotted(call.func).split(".")[-1] == "get_peft_model" and call.args else None


def callers(tree: ast.Module, function: str) -> Iterator[ast.Call]:
    """The calls of a function of the file, by its name or as a method of that name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and dotted(node.func).split(".")[-1] == function:
            yield node


def handed(call: ast.Call, name: str, function: ast.FunctionDef) -> str | None:
    """The parameter that a call gives a variable to."""
    taken = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
    if isinstance(call.func, ast.Attribute) and taken[:1] == ["self"]:
        taken = taken[1:]
    for place, argument in enumerate(call.args[: len(taken)]):
        if dotted(argument) == name:
            return taken[place]
    return next((k.arg for k in call.keywords if k.arg and dotted(k.value) == name), None)
