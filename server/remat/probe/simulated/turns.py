"""The loop over parts that a line stands in, as in a mixture of experts: each turn gets its share of the samples."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import inspect
import math
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, cast

import torch
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Iterator, Sized
    from types import FrameType

_CHOSEN = (
    "top_k", "topk", "k", "num_experts_per_tok", "num_experts_per_token", "n_activated_experts", "num_selected_experts",
    "n_experts_per_token", "moe_top_k", "num_selects",
)  # fmt: skip
_LEAVES = (ast.Continue, ast.Break, ast.Raise, ast.Return)


@dataclass(frozen=True, slots=True)
class Turns:
    """`count`: of the loop. `chosen`: how many of them each sample takes part in, where the code names it."""

    count: int
    chosen: int | None
    line: int
    frame_line: tuple[str, int]

    def share(self, mask: torch.Tensor) -> int:
        """Return how many entries of a mask are true in one turn; a side of it may stand for the choices."""
        times = self.chosen if self.chosen is not None and self.chosen not in mask.shape else 1
        return max(1, min(mask.numel(), math.ceil(mask.numel() * times / self.count)))

    def said(self) -> str:
        each = f", each sample in {self.chosen}" if self.chosen is not None else ""
        return f"as one of the {self.count} turns of the loop on line {self.line}{each}"

    def worked_on(self) -> bool | None:
        """Return what the condition on the line has to be for the turn to do its work; None: it is no condition."""
        path, line = self.frame_line
        tests = [n for n in ast.walk(_tree(path)) if isinstance(n, ast.If) and _spans(n.test, line)]
        if not tests:
            return None
        test = tests[-1].test
        works = not isinstance(tests[-1].body[-1], _LEAVES)
        return works != (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not))


def turns_at(line: tuple[str, int] | None) -> Turns | None:
    """Return the innermost loop around a line that runs now whose turns pick their samples by the turn's number."""
    frame = _frame(line) if line is not None else None
    if line is None or frame is None:
        return None
    loops = [n for n in ast.walk(_tree(line[0])) if isinstance(n, ast.For) and any(_spans(s, line[1]) for s in n.body)]
    for loop in reversed(loops):
        count = _count(loop.iter, frame) if _picks(loop, frame) else None
        if count is not None and count > 1:
            return Turns(count, _chosen(frame, count), loop.lineno, line)
    return None


_CHECKS = {"torch._check", "torch._check_with", "torch._check_tensor_all", "torch._check_tensor_all_with"}


def insisted_on(line: tuple[str, int] | None) -> bool | None:
    """Return what a value on a line has to be to pass an assertion, or a check that raises; None: there is none."""
    for node in ast.walk(_tree(line[0])) if line is not None else ():
        raises = isinstance(node, ast.If) and isinstance(node.body[-1], ast.Raise)
        if (isinstance(node, ast.Assert) or raises) and _spans(node.test, line[1]):  # type: ignore[attr-defined,index]
            return raises == (isinstance(node.test, ast.UnaryOp) and isinstance(node.test.op, ast.Not))  # type: ignore[attr-defined]
        if isinstance(node, ast.Call) and ast.unparse(node.func) in _CHECKS and _spans(node, line[1]):  # type: ignore[index]
            return True
    return None


def _frame(line: tuple[str, int]) -> FrameType | None:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and (frame.f_code.co_filename, frame.f_lineno) != line:
        frame = frame.f_back
    return frame


@cache
def _tree(path: str) -> ast.Module:
    try:
        return ast.parse(importlib.util.decode_source(Path(path).read_bytes()))
    except (OSError, SyntaxError, ValueError):
        return ast.Module([], [])


def _spans(node: ast.expr | ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _picks(loop: ast.For, frame: FrameType) -> bool:
    """Tell whether its body asks `choices == i`, or takes row `i` of a mask."""
    names = {n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)}
    for node in (n for statement in loop.body for n in ast.walk(statement)):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq):
            if any(isinstance(side, ast.Name) and side.id in names for side in (node.left, *node.comparators)):
                return True
        elif isinstance(node, ast.Subscript) and any(
            isinstance(n, ast.Name) and n.id in names for n in ast.walk(node.slice)
        ):
            held = _value(node.value, frame) if isinstance(node.value, ast.Name | ast.Attribute) else None
            if isinstance(held, torch.Tensor) and not held.is_floating_point():
                return True
    return False


def _count(iterated: ast.expr, frame: FrameType) -> int | None:
    called = iterated.func.id if isinstance(iterated, ast.Call) and isinstance(iterated.func, ast.Name) else ""
    if isinstance(iterated, ast.Call) and called == "enumerate" and iterated.args:
        return _count(iterated.args[0], frame)
    if isinstance(iterated, ast.Call) and called == "zip":
        return min((n for part in iterated.args if (n := _count(part, frame)) is not None), default=None)
    if (called == "range" and _is_plain(iterated)) or isinstance(iterated, ast.Name | ast.Attribute):
        held = _value(iterated, frame)
        return (
            len(cast("Sized", held))
            if isinstance(held, range | list | tuple | nn.Module | torch.Tensor) and hasattr(held, "__len__")
            else None
        )
    return None


def _is_plain(call: ast.expr) -> bool:
    """Tell whether nothing of the user's would run again if it were worked out."""
    calls = (n for n in ast.walk(call) if isinstance(n, ast.Call) and n is not call)
    return all(isinstance(n.func, ast.Name) and n.func.id == "len" for n in calls)


def _value(node: ast.expr, frame: FrameType) -> object:
    with contextlib.suppress(Exception):  # any code of the user's
        return eval(compile(ast.Expression(node), "<loop>", "eval"), frame.f_globals, _locals(frame))  # noqa: S307
    return None


def _locals(frame: FrameType) -> dict[str, object]:
    """A copy: what a frame hands out before Python 3.13 it keeps, and with it every tensor, until its function ends."""
    held = frame.f_locals
    copied = dict(held)
    if sys.version_info < (3, 13) and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        held.clear()
    return copied


def _chosen(frame: FrameType, count: int) -> int | None:
    for holder in _holders(frame):
        for name in _CHOSEN:
            value = holder.get(name)
            if type(value) is int and 1 <= value < count:
                return value
    return None


def _holders(frame: FrameType) -> Iterator[dict[str, object]]:
    own = _locals(frame)
    yield own
    module = own.get("self")
    if isinstance(module, nn.Module):
        yield from (vars(part) for part in (module, *module.children()))
