"""Batches that a script draws itself and gives its model: `x = torch.randn(16, 3, 64, 64)`, then `model(x)`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from remat.probe.target.statements import dotted
from remat.probe.target.training_script import Said, called, given, given_to

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remat.probe.target.training_script import Script

_NUMBERS = frozenset({"randn", "rand", "zeros", "ones", "empty"})
_IDS = frozenset({"randint"})
_OF_MODELS = frozenset({"parameters", "named_parameters", "train", "zero_grad"})


def drawn_batches(script: Script) -> list[Said | None]:
    """The first side of every tensor that is drawn and given to a model; None of one whose side only a run tells."""
    return [_side(shape, 0, call.lineno) for call, shape in _fed(script)]


def drawn_lengths(script: Script) -> list[Said | None]:
    """The second side of those that are ids of a batch of sequences."""
    ids = [(call, shape) for call, shape in _fed(script) if called(call) in _IDS and len(shape) == 2]
    return [_side(shape, 1, call.lineno) for call, shape in ids]


def _side(shape: list[object], place: int, line: int) -> Said | None:
    size = shape[place] if len(shape) > place else None
    return Said(str(size), line) if type(size) is int and size > 0 else None


def _fed(script: Script) -> Iterator[tuple[ast.Call, list[object]]]:
    """Calls that draw what a model is given, each with its sides."""
    models = _models(script)
    uses = [call for call in script.calls if dotted(call.func) in models]
    arguments = [argument for call in uses for argument in (*call.args, *(k.value for k in call.keywords))]
    given_names = {dotted(argument) for argument in arguments}
    for drawn in filter(None, map(_drawing, arguments)):
        yield drawn, _shape(script, drawn)
    for node in ast.walk(script.tree):
        if isinstance(node, ast.Assign) and id(node) not in script.aside:
            for name, value in given_to(node.targets[0], node.value):
                call = _drawing(value)
                if call is not None and name in given_names:
                    yield call, _shape(script, call)


def _models(script: Script) -> set[str]:
    """Names of what has parameters."""
    owners = (call.func for call in script.calls if isinstance(call.func, ast.Attribute))
    return {dotted(owner.value) for owner in owners if owner.attr in _OF_MODELS}


def _drawing(node: ast.expr) -> ast.Call | None:
    """The call of torch in `torch.randn(8, 4).cuda()`."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if dotted(node.func.value) == "torch":
            return node if node.func.attr in _NUMBERS | _IDS else None
        node = node.func.value
    return None


def _shape(script: Script, call: ast.Call) -> list[object]:
    args = list(call.args)
    size = given(call, "size")
    if called(call) in _IDS:  # (high, size) or (low, high, size)
        size = size or (args[-1] if args else None)
    elif size is None and len(args) != 1:
        return [script.value(one, call) for one in args if not isinstance(one, ast.Starred)]
    size = size or args[0]
    value = script.value(size, call)
    return list(value) if isinstance(value, tuple | list) else [value]
