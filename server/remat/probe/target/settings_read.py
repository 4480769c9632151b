"""Reads what a class or function asks of its configuration, there and in what it hands the configuration on to."""

from __future__ import annotations

import ast
import inspect
import itertools
import textwrap
from typing import TYPE_CHECKING, cast

from remat.probe.target.scopes import evaluate_in
from remat.probe.target.statements import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remat.probe.target.calls import Callee
    from remat.probe.target.loading import File

_METHODS = {"get", "items", "keys", "values", "pop", "copy", "update", "to_dict", "setdefault"}
_DEEPEST = 4


def attributes_read(callee: object, name: str, file: File, depth: int = 0) -> frozenset[str]:
    """Return what a class or function reads of its parameter: `a` of `name.a`, `a.b` of `name.a.b`, and of items.

    What it hands the parameter on to is read as well, as far as the file knows it.
    """
    function = getattr(callee, "__init__", callee) if isinstance(callee, type) else callee
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))  # type: ignore[arg-type]
    except (OSError, TypeError, SyntaxError):
        return frozenset()
    paths = {p for n in ast.walk(tree) if isinstance(n, ast.Attribute | ast.Subscript) and (p := _path(n, name))}
    paths |= set(_read_later(callee, _kept_as(tree, name)))
    if depth < _DEEPEST:
        for inner, parameter in _handed_on(tree, name, callee, file):
            paths |= attributes_read(inner, parameter, file, depth + 1)
    paths = {".".join(itertools.takewhile(lambda part: part not in _METHODS, p.split("."))) for p in paths} - {""}
    return frozenset(p for p in paths if not any(other.startswith(f"{p}.") for other in paths))


def _kept_as(tree: ast.Module, name: str) -> set[str]:
    """`opt` of `self.opt = name`."""
    kept = (n for n in ast.walk(tree) if isinstance(n, ast.Assign) and isinstance(n.value, ast.Name))
    named = (n for n in kept if cast("ast.Name", n.value).id == name)
    return {path for n in named for target in n.targets if (path := _path(target, "self"))}


def _read_later(callee: object, kept: set[str]) -> Iterator[str]:
    """Yield what the methods of a class read of the configuration that it keeps."""
    if not isinstance(callee, type) or not kept:
        return
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(callee)))
    except (OSError, TypeError, SyntaxError):
        return
    forward = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == "forward"]
    for node in (n for function in forward for n in ast.walk(function) if isinstance(n, ast.Attribute | ast.Subscript)):
        first, _, rest = _path(node, "self").partition(".")
        if first in kept and rest:
            yield rest


def _handed_on(tree: ast.Module, name: str, caller: object, file: File) -> Iterator[tuple[object, str]]:
    """Yield what is called with the whole of `name`, and the name of its parameter."""
    function = inspect.unwrap(getattr(caller, "__init__", caller) if isinstance(caller, type) else caller)  # type: ignore[arg-type]
    known = getattr(function, "__globals__", {})
    for call in (n for n in ast.walk(tree) if isinstance(n, ast.Call)):
        given = [*enumerate(call.args), *((k.arg, k.value) for k in call.keywords)]
        at = next((key for key, value in given if isinstance(value, ast.Name) and value.id == name), None)
        if at is None:
            continue
        try:
            callee = _called(call.func, caller, known) or evaluate_in(file, call.func, [])
            parameters = list(inspect.signature(cast("Callee[object]", callee)).parameters)
        except (Exception, SystemExit):  # noqa: BLE001, S112  (any code of the user's)
            continue
        if isinstance(at, str) or at < len(parameters):
            yield callee, at if isinstance(at, str) else parameters[at]


def _called(function: ast.expr, caller: object, known: dict[str, object]) -> object:
    """What a name means where `caller` is written; `super().__init__` is the class that it extends."""
    if ast.unparse(function).startswith("super(") and isinstance(caller, type):
        return next((base for base in caller.__mro__[1:] if "__init__" in vars(base)), None)
    return eval(dotted(function), known) if dotted(function).isidentifier() else None  # noqa: S307


def _path(node: ast.expr, name: str) -> str:
    """`a.b` of `name.a.b` and `name["a"]["b"]`; an empty text for any other expression."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute | ast.Subscript):
        if isinstance(node, ast.Attribute):
            parts.append(node.attr)
        elif isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
            parts.append(node.slice.value)
        else:
            parts.clear()
        node = node.value
    return ".".join(reversed(parts)) if isinstance(node, ast.Name) and node.id == name else ""
