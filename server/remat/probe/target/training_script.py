"""A script that trains, as it is read: its calls, and what expressions of it stand for where they stand."""

from __future__ import annotations

import ast
import contextlib
import inspect
import itertools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from remat.probe.messages import TRL_CONFIGS
from remat.probe.simulated.cuda.there import a_gpu_is_there
from remat.probe.target.packages import read
from remat.probe.target.scopes import evaluate_in, scopes_around
from remat.probe.target.statements import dotted, holds_training, is_main_guard
from remat.probe.target.unwritten import nothing_written

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remat.probe.target.loading import File

UNKNOWN = object()
"""what only a run tells"""
LOOKING = re.compile(r"(?i)(?:^|[_. ])(?:eval|val(?!u)|test|infer|predict|sample|generat|estimat)")
"""names of what evaluates or draws samples, and does not train"""


@dataclass(frozen=True, slots=True)
class Said:
    """What a line of the script says, such as `64` or `bf16`."""

    value: str
    line: int
    is_sure: bool = True
    """An optimizer without a name in `Variant.optimizer` is not, nor an autocast on which only a run decides."""


@dataclass(frozen=True, slots=True)
class Script:
    """A script that trains. `calls`: in their order, without those of functions that do not train, whose nodes are
    `aside`, by identity.
    """

    file: File
    tree: ast.Module
    calls: list[ast.Call]
    aside: set[int]

    def value(self, node: ast.expr | None, call: ast.AST) -> object:
        """What an expression stands for; `UNKNOWN` where only a run tells, or nothing is written."""
        if node is None:
            return UNKNOWN
        if isinstance(node, ast.Constant):
            return node.value
        try:
            return evaluate_in(self.file, node, scopes_around(self.tree, call))
        except (Exception, SystemExit):  # noqa: BLE001  (any code of the user's)
            return UNKNOWN

    def keyword(self, call: ast.Call, name: str) -> object:
        return self.value(given(call, name), call)

    def is_reached(self, call: ast.Call) -> bool | None:
        """Tell whether the conditions around a call hold; None where only a run tells."""
        is_sure = True
        for node in ast.walk(self.tree):
            if isinstance(node, ast.If | ast.IfExp) and any(inner is call for inner in ast.walk(node)):
                body = node.body if isinstance(node.body, list) else [node.body]
                in_body = any(inner is call for part in body for inner in ast.walk(part))
                in_test = any(inner is call for inner in ast.walk(node.test))
                test = True if in_test or is_main_guard(node) else self.value(node.test, call)
                if test is UNKNOWN:
                    is_sure = False
                elif not in_test and bool(test) != in_body:
                    return False
        return True if is_sure else None


@contextlib.contextmanager
def reading(file: File) -> Iterator[Script | None]:
    """The script, while it is read; None where the file does not train. What is worked out is forgotten with it."""
    tree = ast.parse(read(file.path))
    if not holds_training(tree):
        yield None
        return
    aside = {id(n) for function in ast.walk(tree) if _only_looks(function) for n in ast.walk(function)}
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and id(n) not in aside]
    with nothing_written(), a_gpu_is_there():
        yield Script(file.twin(), tree, sorted(calls, key=lambda call: call.lineno), aside)


def _only_looks(node: ast.AST) -> bool:
    """Tell whether a function evaluates, or draws samples, and does not train."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or holds_training(node):
        return False
    decorators = {dotted(d.func if isinstance(d, ast.Call) else d).split(".")[-1] for d in node.decorator_list}
    return bool(LOOKING.search(node.name) or decorators & {"no_grad", "inference_mode"})


def arguments(call: ast.Call, callee: type) -> dict[str, ast.expr]:
    """What it is called with, by the names of its parameters."""
    names = list(inspect.signature(callee).parameters)
    positional = dict(
        zip(names, itertools.takewhile(lambda a: not isinstance(a, ast.Starred), call.args), strict=False)
    )
    return {**positional, **{k.arg: k.value for k in call.keywords if k.arg}}


def called(call: ast.Call) -> str:
    return dotted(call.func).split(".")[-1]


def sets_a_trainer(call: ast.Call) -> bool:
    return called(call).endswith("TrainingArguments") or called(call) in TRL_CONFIGS


def given(call: ast.Call, name: str) -> ast.expr | None:
    return next((k.value for k in call.keywords if k.arg == name), None)


def line_of(call: ast.Call, name: str) -> int:
    value = given(call, name)
    return call.lineno if value is None else value.lineno


def given_to(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """What is given to which name: `batch_size, length = 12, 128`."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        for one, other in zip(target.elts, value.elts, strict=True):
            yield from given_to(one, other)
    else:
        yield dotted(target), value
