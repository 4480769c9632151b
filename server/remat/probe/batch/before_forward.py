"""What a model insists on before its forward is called: an assertion about itself, which no input can meet."""

from __future__ import annotations

import ast
import inspect
import textwrap
import traceback
from typing import TYPE_CHECKING, TypeGuard

from remat.probe.built import FactMissingError

if TYPE_CHECKING:
    from torch import nn

    from remat.probe.messages import Location


def before_forward(model: nn.Module, error: BaseException, place: Location) -> FactMissingError | None:
    """Say which method prepares the model, where it asserts that it was; None for an assertion about inputs."""
    frame = list(traceback.walk_tb(error.__traceback__))[-1:]
    if not isinstance(error, AssertionError) or not frame or frame[0][0].f_locals.get("self") is not model:
        return None
    line = frame[0][1]
    written = _written(model)
    insisted = [n for n in ast.walk(written) if isinstance(n, ast.Assert) and n.lineno <= line <= (n.end_lineno or 0)]
    read = {n.attr for n in ast.walk(insisted[0].test) if _of_self(n)} if insisted else set()
    names = {n.id for n in ast.walk(insisted[0].test) if isinstance(n, ast.Name)} if insisted else set()
    setters = [
        method.name
        for method in ast.walk(written)
        if isinstance(method, ast.FunctionDef) and method.name not in {"__init__", "forward"}
        if any(_of_self(n) and isinstance(n.ctx, ast.Store) and n.attr in read for n in ast.walk(method))
    ]
    if names - {"self"} or not setters:
        return None
    name = type(model).__name__
    fact = f"what is done before `{name}.forward`: {frame[0][0].f_code.co_filename}:{line} insists on it ({error})"
    how = f"write remat_probe.py beside it, with build(): it makes {name}, calls {setters[0]}(…) and returns the model"
    return FactMissingError(fact, how, place)


def _written(model: nn.Module) -> ast.AST:
    try:
        lines, first = inspect.getsourcelines(type(model))
    except (OSError, TypeError):
        return ast.Module([], [])
    return ast.increment_lineno(ast.parse(textwrap.dedent("".join(lines))), first - 1)


def _of_self(node: ast.AST) -> TypeGuard[ast.Attribute]:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
