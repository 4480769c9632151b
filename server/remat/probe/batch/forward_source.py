"""Finds the source of a model's `forward`, through what hands its arguments on, and the types it is commented with."""

from __future__ import annotations

import ast
import inspect
import textwrap
from typing import TYPE_CHECKING, cast

from torch import nn

from remat.probe.messages import Location
from remat.probe.target.statements import dotted

if TYPE_CHECKING:
    from remat.probe.target.calls import Callee


def real_forward(module: nn.Module) -> Callee[object]:
    """Return the method that takes the inputs by name: forward, or the one that it hands everything on to."""
    forward = cast("Callee[object]", module.forward)
    function = source_of(forward)
    if function is None or function.args.args[1:] or function.args.vararg is None:
        return forward
    for call in ast.walk(function):
        star = isinstance(call, ast.Call) and call.args and isinstance(call.args[0], ast.Starred)
        if star and isinstance(call, ast.Call) and dotted(call.func).startswith("self."):
            method = getattr(module, dotted(call.func).removeprefix("self."), None)
            if method is not None:
                return real_forward(method) if isinstance(method, nn.Module) else cast("Callee[object]", method)
    return forward


def commented_types(forward: Callee[object]) -> dict[str, str]:
    """Return the types of parameters that a comment `# type: (…) -> …` below the signature gives, as text."""
    function = source_of(forward)
    if function is None or not function.type_comment:
        return {}
    types = ast.parse(function.type_comment, mode="func_type").argtypes
    names = [argument.arg for argument in function.args.args]
    return {n: ast.unparse(kind) for n, kind in zip(names[len(names) - len(types) :], types, strict=True)}


def without_gradients(module: nn.Module) -> Location | None:
    """Return where forward is decorated to run without gradients."""
    forward = inspect.unwrap(type(module).forward)
    function = source_of(forward)
    for decorator in function.decorator_list if function is not None else ():
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        if dotted(called).split(".")[-1] in {"no_grad", "inference_mode"}:
            return Location(inspect.getfile(forward), inspect.getsourcelines(forward)[1] + decorator.lineno - 1)
    return None


def source_of(forward: Callee[object]) -> ast.FunctionDef | None:
    try:
        source = textwrap.dedent(inspect.getsource(inspect.unwrap(forward)))
        tree = ast.parse(source, type_comments="# type: (" in source)
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    return next((node for node in tree.body if isinstance(node, ast.FunctionDef)), None)
