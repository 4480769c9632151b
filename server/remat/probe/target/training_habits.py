"""What a script's loop does beside forward and backward that takes memory: accumulating, clearing late, clipping."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from remat.probe.built import Habits
from remat.probe.target.statements import dotted
from remat.probe.target.tame import last_name
from remat.probe.target.training_script import UNKNOWN, Said, called, given, line_of, sets_a_trainer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remat.probe.target.training_script import Script

_USUAL = frozenset({"model", "net", "network", "self.model", "self.net", "self.network", "self", "module"})
_COPIES = ("AveragedModel", "ModelEma", "ModelEmaV2", "ModelEmaV3", "EMA", "EMAModel", "ExponentialMovingAverage")
_ACCUMULATE = {
    "Accelerator": "gradient_accumulation_steps",
    "Trainer": "accumulate_grad_batches",
    "GradientAccumulationPlugin": "num_steps",
}


def accumulations(script: Script) -> Iterator[Said]:
    """How many batches each step of the optimizer has."""
    for call in script.calls:
        name = _ACCUMULATE.get(called(call), "")
        name = "gradient_accumulation_steps" if sets_a_trainer(call) else name
        if name and given(call, name) is not None:
            yield from _said(script.keyword(call, name), line_of(call, name))
    for node in ast.walk(script.tree):
        if id(node) in script.aside:
            continue
        if isinstance(node, ast.If) and _steps(node):
            for count in _moduli(node.test):
                yield from _said(script.value(count, node), node.lineno)
        elif isinstance(node, ast.For | ast.While):
            yield from _of_micro_steps(script, node)


def _of_micro_steps(script: Script, loop: ast.For | ast.While) -> Iterator[Said]:
    """`for micro_step in range(n):` that holds backward, in a loop that steps after it."""
    for inner in ast.walk(loop):
        if not isinstance(inner, ast.For) or inner is loop or not _calls(inner, "backward") or _steps(inner):
            continue
        if isinstance(inner.iter, ast.Call) and dotted(inner.iter.func) in {"range", "trange"} and _steps(loop):
            yield from _said(script.value(inner.iter.args[-1], inner), inner.lineno)


def _said(value: object, line: int) -> Iterator[Said]:
    if value is UNKNOWN:
        yield Said("", line, is_sure=False)
    elif type(value) is int and value > 1:
        yield Said(str(value), line)


def _moduli(test: ast.expr) -> Iterator[ast.expr]:
    for node in ast.walk(test):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and not isinstance(node.left, ast.Constant):
            yield node.right


def habits_of(script: Script) -> Habits:
    names = trained_names(script)
    loops = list(_loops(script))
    clears = [call for call in script.calls if called(call) == "zero_grad"]
    flags = [script.value(call.args[0] if call.args else given(call, "set_to_none"), call) for call in clears]
    held = [_keeps_output(loop, names) for loop in loops]
    known = [kept for kept in held if kept is not None]
    return Habits(
        clips=any(_clips(script, call) for call in script.calls),
        keeps_gradients=bool(flags) and all(flag is False for flag in flags),
        clears_late=any(_clears_late(loop, names) for loop in loops),
        clears_all=any(dotted(call.func).removesuffix(".zero_grad") in names for call in clears),
        retains_graph=any(
            called(call) == "backward" and script.keyword(call, "retain_graph") is True for call in script.calls
        ),
        copies=len(list(copies(script, names))),
        drops_output=bool(known) and not any(known),
    )


def by_hand(script: Script) -> Said | None:
    """Where a script without an optimizer changes the parameters itself: `p.data.add_(p.grad, alpha=-lr)`."""
    for loop in (n for n in ast.walk(script.tree) if isinstance(n, ast.For) and id(n) not in script.aside):
        asks = any(isinstance(n, ast.Attribute) and n.attr == "parameters" for n in ast.walk(loop.iter))
        read = [n for s in loop.body for n in ast.walk(s) if isinstance(n, ast.Attribute) and n.attr == "grad"]
        changed = any(_calls(s, name) for s in loop.body for name in ("add_", "sub_", "copy_")) or any(
            isinstance(s, ast.AugAssign) for s in loop.body
        )
        if asks and read and changed:
            return Said("none", loop.lineno)
    return None


def remarks(script: Script) -> Iterator[Said]:
    """What is said of these habits, each with its line."""
    names = trained_names(script)
    for call in copies(script, names):
        yield Said("a copy of the model is counted with its buffers, as {} keeps one", call.lineno)
    for loop in _loops(script):
        late = next((s for s in _flat(loop) if isinstance(s, ast.Expr) and _calls(s, "zero_grad")), None)
        if late is not None and _clears_late(loop, names):
            yield Said("the gradients of the last step are there during forward: {} clears them after it", late.lineno)
    for call in script.calls:
        if called(call) == "backward" and script.keyword(call, "retain_graph") is True:
            yield Said("what the graph keeps is taken to live through the next forward: {} retains it", call.lineno)


def trained_names(script: Script) -> frozenset[str]:
    """Names of what is trained: those whose parameters somebody asks for, and usual ones."""
    asked = {
        dotted(n.value)
        for n in ast.walk(script.tree)
        if isinstance(n, ast.Attribute) and n.attr in {"parameters", "named_parameters"}
    }
    return frozenset(asked | _USUAL) - {""}


def copies(script: Script, names: frozenset[str]) -> Iterator[ast.Call]:
    """Where the model is copied for good: a moving average of it."""
    for call in script.calls:
        whole = dotted(call.args[0]) if call.args else ""
        part = call.args[0] if call.args else None
        if isinstance(part, ast.Call) and last_name(part) == "parameters" and isinstance(part.func, ast.Attribute):
            whole = dotted(part.func.value)
        is_copy = called(call) in _COPIES or (called(call) == "deepcopy" and _is_kept(script, call))
        if is_copy and whole in names and script.is_reached(call) is not False:
            yield call


def _is_kept(script: Script, call: ast.Call) -> bool:
    """Tell `ema = deepcopy(model)` from `model = deepcopy(model)` and from what is saved."""
    for node in ast.walk(script.tree):
        if isinstance(node, ast.Assign) and any(inner is call for inner in ast.walk(node.value)):
            return dotted(node.targets[0]) != dotted(call.args[0])
    return False


def _clips(script: Script, call: ast.Call) -> bool:
    name = called(call)
    if name == "Trainer":
        return script.keyword(call, "gradient_clip_val") not in {UNKNOWN, None, 0}
    return name in {"clip_grad_norm_", "clip_grad_norm"} or sets_a_trainer(call)


def _loops(script: Script) -> Iterator[list[ast.stmt]]:
    """The blocks in which a backward stands, and all that stands with it."""
    for node in ast.walk(script.tree):
        body = getattr(node, "body", None)
        if id(node) in script.aside or not isinstance(body, list):
            continue
        if any(_is_backward(statement) for statement in body):
            yield body


def _is_backward(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and _calls(node, "backward")


def _flat(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        if isinstance(statement, ast.With | ast.Try):
            yield from _flat(statement.body)
        else:
            yield statement


def _clears_late(body: list[ast.stmt], names: frozenset[str]) -> bool:
    """Tell whether gradients are cleared after a forward and before the backward: they are there during it."""
    is_forward = False
    for statement in _flat(body):
        if _is_backward(statement):
            return False
        if isinstance(statement, ast.Expr) and _calls(statement, "zero_grad"):
            return is_forward
        is_forward = is_forward or any(_is_forward(n, names) for n in ast.walk(statement))
    return False


def _keeps_output(body: list[ast.stmt], names: frozenset[str]) -> bool | None:
    """Tell whether the loop gives the model's whole output a name; None where no forward is seen."""
    seen = None
    for statement in _flat(body):
        if any(_is_forward(n, names) for n in ast.walk(statement)):
            seen = seen or (isinstance(statement, ast.Assign) and _is_forward(statement.value, names))
    return seen


def _is_forward(node: ast.AST, names: frozenset[str]) -> bool:
    return isinstance(node, ast.Call) and dotted(node.func) in names - {"self"}


def _steps(node: ast.AST) -> bool:
    calls = (n.func for n in ast.walk(node) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute))
    return any(f.attr == "step" and not _is_schedule(dotted(f.value)) for f in calls)


def _is_schedule(name: str) -> bool:
    return "sched" in name.lower() or name.rsplit(".", maxsplit=1)[-1] in {"profiler", "prof"}


def _calls(node: ast.AST, method: str) -> bool:
    calls = (n.func for n in ast.walk(node) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute))
    return any(f.attr == method for f in calls)
