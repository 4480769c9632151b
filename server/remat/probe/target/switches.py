"""The checkpointing that a script switches on after it has made a model of transformers, on a line or by a Trainer."""

from __future__ import annotations

import ast
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from remat.probe.target.statements import dotted
from remat.probe.target.trl_defaults import trl_default

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from remat.probe.target.calls import Callee

_STEMS = ("activation_checkpointing", "gradient_checkpointing")
_ARGUMENTS = ("TrainingArguments", "Config")


@dataclass(frozen=True, slots=True)
class Switch:
    """`method`: of the model; `keywords` as written. `line`: where it is said."""

    method: str
    keywords: tuple[ast.keyword, ...]
    line: int


def switches(tree: ast.Module, made: ast.Call) -> list[Switch]:
    """What is switched for the model that `made` makes, whatever else decides: what stands under a condition is not."""
    for body in _bodies(tree):
        for number, statement in enumerate(body):
            if isinstance(statement, ast.Assign) and any(node is made for node in ast.walk(statement.value)):
                name = dotted(statement.targets[0])
                here = list(_by_method(body[number + 1 :], name)) if name else []
                return here or list(by_trainer(tree))
    return []


def is_switch(method: str) -> bool:
    return any(method.startswith(f"{stem}_") for stem in _STEMS)


def switched(model: object, found: list[Switch], evaluate: Callable[[ast.expr], object]) -> object:
    """`model`, with all that is said done to it."""
    for switch in found:
        method = getattr(model, switch.method, None) or getattr(model, _other(switch.method), None)
        if method is not None:
            same = hasattr(model, switch.method)
            given = {k.arg if same else _other(k.arg): k.value for k in switch.keywords if k.arg}
            cast("Callee[None]", method)(**_evaluated(given, evaluate))
    return model


def _evaluated(given: Mapping[str, ast.expr], evaluate: Callable[[ast.expr], object]) -> dict[str, object]:
    """Without what hangs on values that only a run of the script has: the library's default stands in."""
    found: dict[str, object] = {}
    for name, value in given.items():
        with contextlib.suppress(Exception):  # any code of the user's
            found[name] = evaluate(value)
    return found


def said(found: list[Switch]) -> tuple[str, ...]:
    return tuple(f"checkpointing is as line {switch.line} switches it" for switch in found)


def _other(method: str) -> str:
    """The name that the method has in other versions of transformers."""
    old, new = reversed(_STEMS)
    return method.replace(new, old) if new in method else method.replace(old, new)


def _bodies(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            yield body


def _by_method(after: list[ast.stmt], name: str) -> Iterator[Switch]:
    for statement in after:
        call = statement.value if isinstance(statement, ast.Expr) else None
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            continue
        if is_switch(call.func.attr) and dotted(call.func.value) == name:
            yield Switch(call.func.attr, tuple(call.keywords), call.lineno)


def by_trainer(tree: ast.Module) -> Iterator[Switch]:
    """What the settings of a Trainer switch."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    if not any(dotted(call.func).endswith("Trainer") for call in calls):
        return
    for call in calls:
        if not dotted(call.func).endswith(_ARGUMENTS):
            continue
        given = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
        for stem in _STEMS:
            flag = given.get(stem)
            if isinstance(flag, ast.Constant) and flag.value is True:
                settings = given.get(f"{stem}_kwargs")
                keywords = () if settings is None else (ast.keyword(f"{stem}_kwargs", settings),)
                yield Switch(f"{stem}_enable", keywords, flag.lineno)
                return
        config = dotted(call.func).split(".")[-1]
        if not given.keys() & set(_STEMS) and trl_default(config, _STEMS[1]) is True:
            yield Switch(f"{_STEMS[1]}_enable", (), call.lineno)
            return
