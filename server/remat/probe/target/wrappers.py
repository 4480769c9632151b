"""What scripts put around a model that is not simulated with it: compilers, wrappers for several GPUs, launchers."""

from __future__ import annotations

import ast
import copy
from typing import TYPE_CHECKING, cast

import torch

from remat.probe.target.statements import dotted
from remat.probe.target.tame import last_name

if TYPE_CHECKING:
    from collections.abc import Callable

_OF_RANKS = ("DistributedDataParallel", "DDP")
REMARK_OF_COMPILING = "figures are those of eager mode, not of what the compiler makes of it"
_REMARKS = {
    "compile": REMARK_OF_COMPILING,
    "DataParallel": "the figures are those of one GPU with the whole batch",
    "DistributedDataParallel": "what DDP adds is not counted (--world-size N --sharding ddp)",
    "DDP": "what DDP adds is not counted (--world-size N --sharding ddp)",
    "FullyShardedDataParallel": "FSDP is not counted: all parameters are taken to be on this GPU",
    "FSDP": "FSDP is not counted: all parameters are taken to be on this GPU",
    "setup": "", "setup_module": "", "prepare": "", "prepare_model": "", "prepare_ddp_model": "",
}  # fmt: skip
_MODEL = ("model", "module")


def without_wrappers(
    node: ast.expr, evaluate: Callable[[ast.expr], object], say: Callable[[ast.Call, str], None]
) -> ast.expr:
    """A copy of the expression with what is wrapped in place of the wrapper, and without moves to a device; `say` is
    told of each wrapper that has a meaning, and of casts that only a run tells.
    """
    return cast("ast.expr", _Unwrapped(evaluate, say).visit(copy.deepcopy(node)))


class _Unwrapped(ast.NodeTransformer):
    def __init__(self, evaluate: Callable[[ast.expr], object], say: Callable[[ast.Call, str], None]) -> None:
        self.evaluate, self.say = evaluate, say

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr in {"to", "cuda", "cpu"}:
            return self._not_moved(node, node.func.value)
        inner = wrapped_by(node)
        if inner is None:
            return node
        name = last_name(node)
        if name in _OF_RANKS and torch.distributed.is_available() and torch.distributed.is_initialized():
            return node  # ranks are pretended, and the wrapper with them
        if _REMARKS[name]:
            self.say(node, _REMARKS[name])
        return inner

    def _not_moved(self, call: ast.Call, what: ast.expr) -> ast.expr:
        dtype: ast.expr | None = None
        for node in (*call.args, *(k.value for k in call.keywords)):
            try:
                dtype = node if isinstance(self.evaluate(node), torch.dtype) else dtype
            except (Exception, SystemExit):  # noqa: BLE001  (any code of the user's)
                if "type" in ast.unparse(node):
                    self.say(call, "the cast hangs on what only a run tells, and is not followed (--dtype)")
        if dtype is None:
            return what
        return ast.copy_location(ast.Call(ast.Attribute(what, "to", ast.Load()), [dtype], []), call)


def wrapped_by(call: ast.Call) -> ast.expr | None:
    """What a wrapper is put around; None where it is none, or stands around several things."""
    name = last_name(call)
    if name not in _REMARKS or (name == "compile" and dotted(call.func).split(".")[0] == "re"):
        return None
    named = next((k.value for k in call.keywords if k.arg in _MODEL), None)
    if named is not None or len(call.args) == 1:
        return named or call.args[0]
    return call.args[0] if call.args and name not in {"prepare", "setup"} else None


def compiles_in_place(call: ast.Call) -> bool:
    """Tell `model.compile()`."""
    return last_name(call) == "compile" and not call.args
