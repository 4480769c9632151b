"""The lines of a file that make a model, whatever it is called."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torch import nn

from remat.probe.target.statements import dotted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from remat.probe.target.loading import File

_LOADS = {"from_pretrained", "from_config"}
_WRAPS = {"get_peft_model"}


def call_on(file: File, tree: ast.Module, line: int) -> ast.Call | None:
    """The call on `line` that makes a model: one that loads it, the one that is assigned, or that of a module class."""
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and _covers(n, line)]
    loads = sorted((call for call in calls if _last(call) in _LOADS), key=_lines)
    assigned = [value for node, value in _assignments(tree) if _covers(node, line)]
    modules = (call for call in calls if _makes_module(file, call))
    return next(iter([*loads, *assigned]), None) or next(modules, None)


def lines_that_make(file: File, tree: ast.Module) -> dict[int, str]:
    """Where each variable gets its model at last, and its name: training scripts have one, mostly."""
    methods = {inner for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for inner in ast.walk(node)}
    assigned = [(node, value) for node, value in _assignments(tree) if node not in methods]
    making = [node for node, value in assigned if _makes(file, value)]
    builders = _builders(tree, making)
    made = [node for node in making if all(node not in inside for inside in builders.values())]
    made += [node for node, value in assigned if dotted(value.func) in builders]
    last: dict[str, int] = {}
    for node in made:
        name = next((target.id for target in node.targets if isinstance(target, ast.Name)), None)
        if name is not None:
            last[name] = max(node.lineno, last.get(name, 0))
    return {line: name for name, line in last.items()}


def _builders(tree: ast.Module, making: Iterable[ast.Assign]) -> dict[str, set[ast.AST]]:
    """Functions that return what one of these makes and that are called in the file, with all that is in them."""
    called = {dotted(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    found: dict[str, set[ast.AST]] = {}
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name in called):
        inside = set(ast.walk(function))
        returned = {n.value.id for n in inside if isinstance(n, ast.Return) and isinstance(n.value, ast.Name)}
        held = {t.id for node in making if node in inside for t in node.targets if isinstance(t, ast.Name)}
        if returned & held:
            found[function.name] = inside
    return found


def _makes(file: File, call: ast.Call) -> bool:
    return _last(call) in _WRAPS or _loads_model(call) or _makes_module(file, call)


def _assignments(tree: ast.Module) -> Iterator[tuple[ast.Assign, ast.Call]]:
    """Assigned calls; `Net().to(device)` is the call of `Net`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            yield node, node.value


def _makes_module(file: File, call: ast.Call) -> bool:
    while isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Call):
        call = call.func.value
    root, *rest = dotted(call.func).split(".")
    if not root.isidentifier():
        return False
    try:
        thing = file.look_up(root)
        for part in rest:
            thing = getattr(thing, part)
    except Exception:  # noqa: BLE001 - the file's own code runs to bind the name
        return False
    return isinstance(thing, type) and issubclass(thing, nn.Module)


def _loads_model(call: ast.Call) -> bool:
    """Tell `AutoModelForCausalLM.from_pretrained` from tokenizers' and processors'."""
    return _last(call) in _LOADS and "Model" in dotted(call.func)


def _last(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else dotted(call.func)


def _covers(node: ast.expr | ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _lines(node: ast.expr) -> int:
    return (node.end_lineno or node.lineno) - node.lineno
