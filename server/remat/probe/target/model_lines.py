"""The lines of a file that make a model, whatever it is called."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from dataclasses import dataclass, field
from functools import reduce
from types import FunctionType
from typing import TYPE_CHECKING, TypeGuard

from torch import nn

from remat.probe.built import FactMissingError
from remat.probe.target.statements import dotted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from remat.probe.target.loading import File

_LOADS = {"from_pretrained", "from_config"}
_WRAPS = {"get_peft_model"}
_AROUND = {"DataParallel", "DistributedDataParallel", "DDP", "FSDP", "FullyShardedDataParallel"}
_MODELS = re.compile(r"(\w+_)?(model|net|network)(_\w+)?")
_DEEPEST = 3


def call_on(file: File, tree: ast.Module, line: int) -> ast.Call | None:
    """The call on `line` that makes a model: one that loads it, the one that is assigned, or that of a module class."""
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and _covers(n, line)]
    loads = sorted((call for call in calls if _last(call) in _LOADS), key=_lines)
    assigned = [value for node, value in _assignments(tree) if _covers(node, line)]
    modules = (call for call in calls if _makes_module(file, call))
    return next(iter([*loads, *assigned]), None) or next(modules, None)


def lines_that_make(
    file: File, tree: ast.Module, is_reached: Callable[[ast.Call], bool] = lambda _: True
) -> dict[int, str]:
    """Where each variable gets its model at last, and its name: training scripts have one, mostly. Those that are only
    run are left out where others are trained.
    """
    last = models_made(file, tree, is_reached)
    trained = {name: line for name, line in last.items() if name in _seen(tree).trained}
    return {line: name for name, line in (trained or last).items()}


def models_made(
    file: File, tree: ast.Module, is_reached: Callable[[ast.Call], bool] = lambda _: True
) -> dict[str, int]:
    """By its name, where each variable gets its model at last."""
    seen = _seen(tree)
    making = [a for a in seen.assigned if a.names and _makes(file, a.call) and is_reached(a.call)]
    if not making:
        named = (a for a in seen.assigned if any(map(_MODELS.fullmatch, a.names)) and is_reached(a.call))
        making = [a for a in named if _makes_by_function(file, a.call)]
    builders = {
        function
        for a in making
        for function in a.inside
        if function in seen.called and seen.returned.get(function, set()) & a.names
    }
    last: dict[str, int] = {}
    for made in [
        *(a for a in making if not builders & set(a.inside)),
        *(a for a in seen.assigned if dotted(a.call.func) in builders),
    ]:
        for name in made.names:
            last[name] = max(made.line, last.get(name, 0))
    return last


@dataclass(frozen=True, slots=True)
class _Assigned:
    """`names = call` outside of classes. `inside`: the functions around it."""

    call: ast.Call
    names: frozenset[str]
    line: int
    inside: tuple[str, ...]


@dataclass(slots=True)
class _Seen:
    """What one walk over a file sees. `returned`: the names that a function returns."""

    assigned: list[_Assigned] = field(default_factory=list)
    called: set[str] = field(default_factory=set)
    trained: set[str] = field(default_factory=set)
    """names whose parameters, or those of their parts, somebody asks for"""
    returned: dict[str, set[str]] = field(default_factory=dict)


def _seen(tree: ast.Module) -> _Seen:
    seen = _Seen()
    open_: list[tuple[ast.AST, tuple[str, ...], bool]] = [(tree, (), False)]
    while open_:
        node, inside, in_class = open_.pop()
        if isinstance(node, ast.Call):
            seen.called.add(dotted(node.func))
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and not in_class:
            names = frozenset(t.id for t in node.targets if isinstance(t, ast.Name))
            seen.assigned.append(_Assigned(node.value, names, node.lineno, inside))
        elif isinstance(node, ast.Attribute) and node.attr in {"parameters", "named_parameters"}:
            seen.trained.add(dotted(node.value).split(".")[0])
        elif isinstance(node, ast.Return) and isinstance(node.value, ast.Name):
            for function in inside:
                seen.returned.setdefault(function, set()).add(node.value.id)
        if isinstance(node, ast.FunctionDef):
            inside = (*inside, node.name)
        in_class = in_class or isinstance(node, ast.ClassDef)
        open_ += [(child, inside, in_class) for child in ast.iter_child_nodes(node)]
    return seen


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
    name = dotted(call.func)
    if not name.split(".")[0].isidentifier() or name.split(".")[-1] in _AROUND:
        return False
    thing = _named_there(file, name)
    return isinstance(thing, type) and issubclass(thing, nn.Module) and thing.__module__ != "torch.nn.modules.loss"


def _makes_by_function(file: File, call: ast.Call) -> bool:
    """Tell whether what is called is a function that returns a module, as its source or annotation says."""
    return _returns_module(_named_there(file, dotted(call.func)))


def _named_there(file: File, name: str) -> object:
    """What a dotted name stands for in the file; None where it can't be bound."""
    root, *rest = name.split(".")
    try:
        thing = file.look_up(root)
        for part in rest:
            thing = getattr(thing, part)
    except Exception:  # noqa: BLE001 - the file's own code runs to bind the name
        return None
    return thing


def _returns_module(function: object, depth: int = 0) -> bool:
    if not isinstance(function, FunctionType) or depth > _DEEPEST:
        return False
    annotated = function.__annotations__.get("return")
    if isinstance(annotated, type) and issubclass(annotated, nn.Module):
        return True
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return False
    assigned = {
        name.id: n.value for n in ast.walk(tree) if isinstance(n, ast.Assign) for name in n.targets if _is_name(name)
    }
    for node in (n.value for n in ast.walk(tree) if isinstance(n, ast.Return)):
        value = assigned.get(node.id, node) if isinstance(node, ast.Name) else node
        made = _global(function, dotted(value.func)) if isinstance(value, ast.Call) else None
        if (isinstance(made, type) and issubclass(made, nn.Module)) or _returns_module(made, depth + 1):
            return True
    return False


def _is_name(node: ast.expr) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name)


def _global(function: FunctionType, name: str) -> object:
    root, *rest = name.split(".")
    try:
        return reduce(getattr, rest, eval(root, function.__globals__))  # noqa: S307  (a name of the user's file)
    except (NameError, AttributeError, SyntaxError, KeyError, FactMissingError):
        return None


def _loads_model(call: ast.Call) -> bool:
    """Tell `AutoModelForCausalLM.from_pretrained` from tokenizers' and processors'."""
    return _last(call) in _LOADS and "Model" in dotted(call.func)


def _last(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else dotted(call.func)


def _covers(node: ast.expr | ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _lines(node: ast.expr) -> int:
    return (node.end_lineno or node.lineno) - node.lineno
