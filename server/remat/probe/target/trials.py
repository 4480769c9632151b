"""Tells calls that only try a model out, which make a small one, from those whose model is trained."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from remat.probe.target.statements import dotted, holds_training

if TYPE_CHECKING:
    from collections.abc import Sequence

    from remat.probe.target.scopes import Scope

_TRIAL = re.compile(r"(^|_)(tests?|examples?|demo|sanity|smoke|toy|check|try)(_|\d|$)", re.IGNORECASE)


def is_trial(scopes: Sequence[Scope], tree: ast.Module, *, own_file: bool) -> bool:
    """Tell it by the function around a call, or by its model's own file that runs it and trains nothing."""
    if any(not isinstance(scope, ast.If) and _TRIAL.search(scope.name) for scope in scopes):
        return True
    return own_file and any(isinstance(s, ast.If) and _is_main(s.test) for s in scopes) and not holds_training(tree)


def is_trained(call: ast.Call, scopes: Sequence[Scope], tree: ast.Module) -> bool:
    """Tell whether the name that a call is assigned to is asked for its parameters, as optimizers ask, nearby."""
    around = scopes[-1] if scopes else tree
    asked = {
        dotted(n.value)
        for n in ast.walk(around)
        if isinstance(n, ast.Attribute) and n.attr in {"parameters", "named_parameters"}
    }
    assigned = (n for n in ast.walk(around) if isinstance(n, ast.Assign) and {dotted(t) for t in n.targets} & asked)
    return any(inner is call for node in assigned for inner in ast.walk(node.value))


def _is_main(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and "__name__" in {n.id for n in ast.walk(test) if isinstance(n, ast.Name)}
