"""Whether code runs without gradients: surely, where a claim is built on it; perhaps, where silence is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from remat.lint.code.syntax import dotted, is_literal, string_value, walk

if TYPE_CHECKING:
    from remat.lint.code.source import Place

_OFF = (["no_grad"], ["inference_mode"])
_SPEAKS = re.compile(r"no_grad|inference_mode")
_SWITCH = "set_grad_enabled"


def surely_without_gradients(place: Place, node: cst.CSTNode) -> bool:
    """Whether `node` runs under `torch.no_grad()` or `torch.inference_mode()`, as far as its function shows."""
    for above in place.parsed.ancestors(node):
        if isinstance(above, cst.With) and any(_switches_off(item.item) for item in above.items):
            return True
        if isinstance(above, cst.FunctionDef) and any(_switches_off(d.decorator) for d in above.decorators):
            return True
    return False


def _switches_off(expression: cst.BaseExpression) -> bool:
    func = expression.func if isinstance(expression, cst.Call) else expression
    return dotted(func)[-1:] in _OFF


def may_switch_off(*tops: cst.CSTNode) -> bool:
    """Whether the items of a `with`, or a decorator, may switch gradients off: a condition or a helper may decide."""
    for node in walk(*tops):
        said = node.value if isinstance(node, cst.Name) else string_value(node)
        if said is not None and _SPEAKS.search(said):
            return True
        if isinstance(node, cst.Call) and dotted(node.func)[-1:] == [_SWITCH]:
            return not any(is_literal(a.value, "True") for a in node.args)
    return False


def function_may_switch_off(function: cst.CSTNode | None) -> bool:
    """Whether a decorator such as `@torch.no_grad()` may."""
    decorators = function.decorators if isinstance(function, cst.FunctionDef) else ()
    return any(may_switch_off(d.decorator) for d in decorators)
