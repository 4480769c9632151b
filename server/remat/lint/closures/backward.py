"""Whether code may run backward, or only tells somebody something, judged by the names of its calls."""

from __future__ import annotations

import re
from functools import lru_cache

import libcst as cst

from remat.lint.code.syntax import dotted, walk

_BACKWARD = re.compile(r"backward|^grad$|(?:^|_)step$|^step_|^train|^fit$|^optimi[sz]e|^learn|_grads?$|^vjp$")
_COLLECTS = re.compile(r"^(?:append|appendleft|extend|add|insert|put|update|setdefault|write)$")
_TELLS_ABOUT = re.compile(r"(?i)log|debug|^info|warn|print|record|describe|profil|range_push|range_pop|postfix|tqdm")
_TELLS = re.compile(
    r"^(?:print|debug|info|warn|warning|error|exception|record_function|range_push|annotate|set_description|set_postfix"
    r"|add_scalar|add_histogram)$"
)
_LOGGERS = frozenset({"self", "log", "logger", "logging", "wandb", "mlflow"})


@lru_cache(512)  # each keeps a tree alive, that of a text which may be gone
def runs_backward(top: cst.CSTNode, *, by_others: bool = True) -> bool:
    """Whether the code below `top` may run backward or, `by_others`, hand what it computed to code that does."""
    for node in walk(top):
        if isinstance(node, cst.Yield):
            return True
        if isinstance(node, cst.Call) and _BACKWARD.search(last_name(node)):
            return True
        if by_others and isinstance(node, cst.Expr) and isinstance(node.value, cst.Call) and _takes_over(node.value):
            return True
    return False


def _takes_over(call: cst.Call) -> bool:
    """A statement such as `update(loss)`: its result is not used, so it does something with what it is given."""
    name = last_name(call)
    collects = isinstance(call.func, cst.Attribute) and _COLLECTS.search(name)
    return not collects and not _TELLS_ABOUT.search(name) and any(isinstance(a.value, cst.Name) for a in call.args)


def last_name(call: cst.Call) -> str:
    called = call.func.attr if isinstance(call.func, cst.Attribute) else call.func
    return called.value if isinstance(called, cst.Name) else ""


def is_log(call: cst.Call) -> bool:
    """Whether the call only tells somebody something."""
    path = dotted(call.func)
    return bool(path) and (_TELLS.search(path[-1]) is not None or (path[-1].startswith("log") and path[0] in _LOGGERS))
