"""Calls of the project as ways to make a model: their arguments are worked out where they stand, without running it."""

from __future__ import annotations

import ast
import copy
import dataclasses
import inspect
import re
import textwrap
import traceback
from typing import TYPE_CHECKING, cast

import torch
from torch import nn

from remat.probe.target.call_sites import sites, sites_in_script
from remat.probe.target.scopes import evaluate_in
from remat.probe.target.spelled import entries
from remat.probe.target.unwritten import nothing_written
from remat.probe.target.ways import Arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from remat.probe.target.call_sites import Site
    from remat.probe.target.calls import Callee
    from remat.probe.target.loading import File

_SIZE = re.compile(r"(n|num|len)_?.*|.*(size|dim|vocab|tokens?|classes|features|channels|width|hidden).*")
_NUMBER = re.compile(r"^(int|float)( \| None)?$|Optional\[(int|float)\]$|Union\[(int|float), None(Type)?\]$")
_PLAIN = re.compile(r"int|float|str")  # `dict = None` stands for an empty one


def parameters_of(callee: Callee[object]) -> list[inspect.Parameter]:
    try:
        found = list(inspect.signature(callee).parameters.values())
    except (ValueError, TypeError):
        return []
    return _fields(callee) if {p.kind for p in found} == {inspect.Parameter.VAR_KEYWORD} else found


def _fields(callee: object) -> list[inspect.Parameter]:
    """Return the fields of a data class that takes them by a `__init__(self, **kwargs)` of its own."""
    if not isinstance(callee, type) or not dataclasses.is_dataclass(callee):
        return []
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default,
            annotation=field.type,
        )
        for field in dataclasses.fields(callee)
        if field.default_factory is dataclasses.MISSING
    ]


def needed_of(callee: Callee[object]) -> list[inspect.Parameter]:
    """Return the parameters without a default."""
    several = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    return [p for p in parameters_of(callee) if p.default is p.empty and p.kind not in several]


def open_numbers(callee: Callee[object]) -> list[inspect.Parameter]:
    """Return the numbers that are None by default: `n: int | None = None`."""
    spelt = {
        p: str(getattr(p.annotation, "__name__", p.annotation)) for p in parameters_of(callee) if p.default is None
    }
    texts = {p: str(p.annotation) if "Union" in text or "Optional" in text else text for p, text in spelt.items()}
    return [p for p, text in texts.items() if _NUMBER.search(text)]


def undecided(callee: Callee[object]) -> list[inspect.Parameter]:
    """Return the parameters whose default only says that someone has to set them: `n: int = None`."""
    found = []
    for parameter in parameters_of(callee):
        annotated = str(getattr(parameter.annotation, "__name__", parameter.annotation))
        unset = parameter.default is None or (parameter.default == -1 and annotated == "int")
        if unset and _PLAIN.fullmatch(annotated):
            found.append(parameter)
    return found


def none_where_it_failed(error: BaseException, callee: object) -> set[str]:
    """Return the parameters whose value is None in the statement of `callee` that an error came from."""
    function = inspect.unwrap(getattr(callee, "__init__", callee) if isinstance(callee, type) else callee)  # type: ignore[arg-type]
    code = getattr(function, "__code__", None)
    names: set[str] = set()
    for frame, line in traceback.walk_tb(error.__traceback__):
        if frame.f_code is code:
            read_there = _names_on(line, function)
            names = {n for n in read_there if n in frame.f_locals and frame.f_locals[n] is None}
    return names & {p.name for p in parameters_of(cast("Callee[object]", callee)) if p.default is None}


def none_settings_read(error: BaseException, cls: object) -> set[str]:
    """Return the settings of `cls` that are None, by default too, in the statements that an error went through."""
    unset = {p.name for p in parameters_of(cast("Callee[object]", cls)) if p.default is None}
    names: set[str] = set()
    if not isinstance(cls, type) or not unset:
        return names
    for frame, line in traceback.walk_tb(error.__traceback__):
        held = {name for name, value in frame.f_locals.items() if isinstance(value, cls)}
        for node in ast.walk(_statement_on(line, frame.f_code)) if held else ():
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in held:
                value = getattr(frame.f_locals[node.value.id], node.attr, node)
                names |= {node.attr} if value is None and node.attr in unset else set()
    return names


def _names_on(line: int, function: object) -> set[str]:
    """Return the names that the innermost statement around a line of a function reads."""
    return {n.id for n in ast.walk(_statement_on(line, function)) if isinstance(n, ast.Name)}


def _statement_on(line: int, function: object) -> ast.AST:
    try:
        lines, first = inspect.getsourcelines(cast("Callee[object]", function))
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):
        return ast.Module([], [])
    at = line - first + 1
    around = [n for n in ast.walk(tree) if isinstance(n, ast.stmt) and n.lineno <= at <= (n.end_lineno or n.lineno)]
    return min(around, key=lambda n: (n.end_lineno or n.lineno) - n.lineno, default=tree)


def as_called(callee: object, file: File) -> Iterator[Arguments]:
    """Find calls of it in the project whose arguments can be worked out without running it."""
    yield from _as_at(sites(callee, file), callee)


def as_trained(callee: object, file: File) -> Iterator[Arguments]:
    """The same of the calls in its own file alone, where that is a script that trains what it makes."""
    yield from _as_at(sites_in_script(callee, file), callee)


def _as_at(found: list[Site], callee: object) -> Iterator[Arguments]:
    name = getattr(callee, "__name__", "model")
    others = [site.place for site in found]
    for site in found:
        with nothing_written():
            arguments = _arguments_at(site, getattr(callee, site.method) if site.method else callee)
        if arguments is not None:
            said = [f"{name} is made as at {site.place}"]
            elsewhere = [place for place in others if place != site.place][:3]
            if elsewhere:
                said.append(f"{name} is also called at {', '.join(elsewhere)} (model= in a probe comment)")
            yield dataclasses.replace(arguments, assumptions=tuple(said), method=site.method)


def _arguments_at(site: Site, callee: object) -> Arguments | None:
    call = site.call
    if any(isinstance(v, ast.Starred) for v in call.args):
        return None
    named: list[tuple[str, ast.expr]] = []
    for keyword in call.keywords:
        named += [(keyword.arg, keyword.value)] if keyword.arg else entries(site, keyword.value).items()
    positional = tuple(_maker(site, value) for value in call.args)
    by_name = tuple((name, _maker(site, value)) for name, value in named)
    try:
        bound = inspect.signature(cast("Callee[object]", callee)).bind(
            *(make() for make in positional), **{name: make() for name, make in by_name}
        )
        if any(is_no_value(v, n, callee) for n, v in bound.arguments.items()):
            return None
    except (Exception, SystemExit):  # noqa: BLE001  (any code of the user's; the next call may do)
        return None
    return Arguments(positional, by_name)


def is_no_value(value: object, name: str, callee: object) -> bool:
    """Tell whether a value says that the script had no data or options: None, or a size of nothing."""
    parameter = inspect.signature(cast("Callee[object]", callee)).parameters.get(name)
    if parameter is None or parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}:
        return False
    unset = {p.name for p in undecided(cast("Callee[object]", callee))}
    needed = parameter.default is parameter.empty or name in unset
    return needed and (value is None or (type(value) is int and value == 0 and bool(_SIZE.fullmatch(name.lower()))))


def _maker(site: Site, node: ast.expr) -> Callable[[], object]:
    return lambda: _own(evaluate_in(site.file, node, site.scopes))


def _own(value: object) -> object:
    """Copy what a constructor may change: a configuration of the project is there for the next model as well."""
    if isinstance(value, nn.Module | torch.Tensor | type | int | float | str | tuple | None):
        return value
    try:
        return copy.deepcopy(value)
    except Exception:  # noqa: BLE001  (any object of the user's)
        return value
