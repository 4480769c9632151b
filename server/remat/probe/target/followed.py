"""What a script does with its model once it is made: freezing, casts, adapters, heads, while it touches it alone."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, cast

from torch import nn

from remat.probe.built import FactMissingError
from remat.probe.target.packages import read
from remat.probe.target.scopes import from_here_on, line_of_function, scopes_around
from remat.probe.target.statements import dotted, holds_training, is_main_guard
from remat.probe.target.switches import Switch, is_switch, switched
from remat.probe.target.tame import (
    ACTING,
    CHANGING,
    begins,
    changes,
    changes_parts,
    is_setting,
    is_tame,
    is_tame_function,
    last_name,
    source_of,
    trains_other_parts,
)
from remat.probe.target.unwritten import nothing_written
from remat.probe.target.whereabouts import PLACE, callers, handed, same_call, whereabouts
from remat.probe.target.wrappers import REMARK_OF_COMPILING, compiles_in_place, without_wrappers, wrapped_by

if TYPE_CHECKING:
    from collections.abc import Sequence

    from remat.probe.target.course import Course
    from remat.probe.target.loading import File
    from remat.probe.target.scopes import Local
    from remat.probe.target.whereabouts import Whereabouts

_MOST_FUNCTIONS = 6
_LEADS_ON = ("list", "filter", "tuple", "reversed", "sorted", "enumerate", "zip", "dict", "getattr")
_MOVING = ("to", "cuda", "cpu", "train", "eval", "print")


def follow(model: object, file: File, call: ast.Call, course: Course) -> object:
    """`model`, made by `call` of a script that trains, with all done to it that is done before it is trained."""
    tree = ast.parse(read(file.path))
    found = same_call(tree, call)
    there = whereabouts(tree, found) if found is not None else None
    if there is None or not isinstance(model, nn.Module) or not holds_training(tree):
        return model
    walk = _Walk(model, course)
    with nothing_written():
        walk.from_making(there)
    return walk.model


class _TrainedError(Exception):
    """Here the training begins."""


class _Walk:
    """Goes through the statements that follow the making of a model, and from function to function with it."""

    def __init__(self, model: nn.Module, course: Course) -> None:
        self.model, self.course = model, course
        self.name = ""
        self.leading: set[str] = set()  # names of parts of the model
        self.functions = 0
        self.function = 0  # its line, as of the one that is followed now
        self.local: Local

    def from_making(self, there: Whereabouts) -> None:
        self.functions += 1
        self.function = line_of_function(there.scopes)
        self.local = from_here_on(self.course.file, there.scopes, there.call, there.body)
        self.local.give(PLACE, self.model)
        self._become(there.value)
        self._call_it(there.name)
        returned = there.is_returned
        if there.name:
            try:
                returned = self.block(there.after)
            except _TrainedError:
                return
        function = there.scopes[-1] if there.scopes else None
        if returned and isinstance(function, ast.FunctionDef) and self.functions < _MOST_FUNCTIONS:
            self._in_callers(there.tree, function)

    def _in_callers(self, tree: ast.Module, function: ast.FunctionDef) -> None:
        for call in callers(tree, function.name):
            there = whereabouts(tree, call)
            if there is not None and not (there.scopes and there.scopes[-1] is function):
                self.from_making(there)
                return

    def _become(self, value: ast.expr) -> None:
        """Put around the model what its own assignment puts around it."""
        if not isinstance(value, ast.Name):
            self._assign(ast.copy_location(ast.Assign([ast.Name(PLACE, ast.Store())], value), value), PLACE)

    def _call_it(self, name: str) -> None:
        self.name, self.leading = name, set()
        if name:
            self.course.names[self.function] = name
            self.local.give_within(name, self.model)

    def block(self, statements: Sequence[ast.stmt]) -> bool:
        """Follow statements in turn; True where the model is returned. Raises `_TrainedError` where training begins."""
        for statement in statements:
            if isinstance(statement, ast.Return):
                return statement.value is not None and self._mentions(statement.value)
            self._statement(statement)
        return False

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom):
            return
        if isinstance(node, ast.If):
            self._branch(node)
        elif isinstance(node, ast.With | ast.Try):
            self.block(node.body)
        elif isinstance(node, ast.For | ast.While) and self._is_training(node):
            self._into(node)
            self._say_of_loop(node)
            raise _TrainedError
        elif self._is_training(node):
            self._into(node)
            raise _TrainedError
        elif not self._mentions(node):
            return
        elif isinstance(node, ast.For):
            if changes_parts(node):
                self._run(node)
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            self._assigned(node)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            self._called(node, node.value)
        elif isinstance(node, ast.Delete):
            self._run(node)

    # ---- kinds of statements

    def _branch(self, node: ast.If) -> None:
        if is_main_guard(node):
            self.block(node.body)
            return
        if not (self._mentions(node) or self._is_training(node)):
            return
        try:
            taken = node.body if self.local.evaluate(node.test) else node.orelse
        except (Exception, SystemExit):  # noqa: BLE001  (any code of the user's)
            if any(self._would_change(inner) for inner in (*node.body, *node.orelse)):
                self.course.leave(node, "hangs on what only a run tells")
            return
        self.block(taken)

    def _assigned(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> None:
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        if node.value is None:
            return
        if dotted(target) == self.name:
            if self._mentions(node.value):
                self._assign(node, self.name)
            else:
                raise _TrainedError  # another model has its name from here on
        elif isinstance(target, ast.Attribute | ast.Subscript) and self._is_part(target):
            self._run(node)
            self.course.do(node)
        elif isinstance(target, ast.Name) and isinstance(node.value, ast.Call):
            self._bound(node, target.id, node.value)
        elif isinstance(target, ast.Name) and self._is_part(node.value):
            self.leading.add(target.id)

    def _bound(self, node: ast.stmt, name: str, call: ast.Call) -> None:
        """`tuned = get_peft_model(model, …)` is the model from there on; `layers = list(model.layers)` leads to it."""
        inner = wrapped_by(call) or (call.args[0] if call.args and last_name(call) == "get_peft_model" else None)
        if inner is not None and dotted(inner) == self.name:
            self._assign(ast.copy_location(ast.Assign([ast.Name(PLACE, ast.Store())], call), node), PLACE)
            self._call_it(name)
        elif dotted(call.func) in _LEADS_ON or (self._is_part(call.func) and dotted(call.func) != self.name):
            self.leading.add(name)

    def _called(self, node: ast.Expr, call: ast.Call) -> None:
        last = last_name(call)
        if last in {"to", "cuda", "cpu"} and dotted(cast("ast.Attribute", call.func).value) == self.name:
            self._assign(ast.copy_location(ast.Assign([ast.Name(PLACE, ast.Store())], call), node), PLACE)
        elif compiles_in_place(call) and self._is_part(call.func):
            self.course.say(node, REMARK_OF_COMPILING)
        elif is_switch(last) and self._is_part(call.func):
            self._switch(call)
        elif self._is_part(call.func) or dotted(call.func) in {"setattr", "delattr"} or "init." in dotted(call.func):
            if last in CHANGING or dotted(call.func) in {"setattr", "delattr"}:
                self._run(node, quietly=last in _MOVING)
            elif is_setting(last) or is_tame_function(getattr(type(self.model), last, None)):
                self._run(node)
        elif last in ACTING:
            self._run(node)
        elif last not in {"print", "summary"}:
            self._handed_over(node, call)

    def _switch(self, call: ast.Call) -> None:
        switch = Switch(last_name(call), tuple(call.keywords), call.lineno)
        part = self.local.evaluate(cast("ast.Attribute", call.func).value)
        switched(part, [switch], self.local.evaluate)
        self.course.has_switch = True
        self.course.do(call)

    def _handed_over(self, node: ast.Expr, call: ast.Call) -> None:
        """`freeze(model)`: a function of the user's, if it only changes what it is given."""
        try:
            function = self.local.evaluate(call.func)
        except (Exception, SystemExit):  # noqa: BLE001  (any code of the user's)
            return
        source = source_of(function)
        if source is None or not any(changes(inner) for inner in ast.walk(source)):
            return
        if is_tame_function(function):
            self._run(node)
        else:
            self.course.leave(node, "reaches beyond the model")

    # ---- where it is trained

    def _is_training(self, node: ast.AST) -> bool:
        """Tell whether it trains, or calls a function of the file with the model that does."""
        if begins(node):
            return True
        calls = (n for n in ast.walk(node) if isinstance(n, ast.Call))
        return any(self._trainer_function(call) is not None for call in calls)

    def _trainer_function(self, call: ast.Call) -> tuple[ast.FunctionDef, str] | None:
        if not any(self._mentions(part) for part in (*call.args, *(k.value for k in call.keywords))):
            return None
        name = dotted(call.func)
        tree = ast.parse(read(self.course.file.path))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name == name.split(".")[-1] and holds_training(node):
                parameter = handed(call, self.name, node)
                return None if parameter is None else (node, parameter)
        return None

    def _into(self, node: ast.AST) -> None:
        """Go on in the function that is called to train the model."""
        found = next(filter(None, (self._trainer_function(n) for n in ast.walk(node) if isinstance(n, ast.Call))), None)
        if found is None or self.functions >= _MOST_FUNCTIONS:
            return
        function, parameter = found
        self.functions += 1
        tree = ast.parse(read(self.course.file.path))
        twin = next(n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.lineno == function.lineno)
        self.local = from_here_on(self.course.file, [*scopes_around(tree, twin), twin], None, twin.body)
        self.function = twin.lineno
        self._call_it(parameter)
        self.block(twin.body)

    def _say_of_loop(self, loop: ast.For | ast.While) -> None:
        for node in ast.walk(loop):
            if isinstance(node, ast.For | ast.Expr) and self._mentions(node) and trains_other_parts(node):
                self.course.leave(node, "changes what is trained while it is")
                return

    # ---- running

    def _run(self, node: ast.stmt, *, quietly: bool = False) -> None:
        if not is_tame(node, self.local.evaluate):
            self.course.leave(node, "reaches beyond the model")
            return
        before = _state(self.model)
        try:
            self.local.execute(node)
        except (Exception, SystemExit) as error:  # noqa: BLE001  (any code of the user's)
            if not (quietly and "dtype" not in ast.unparse(node)):
                self.course.leave(node, _why(error))
            return
        if not quietly or _state(self.model) != before:
            self.course.do(node)

    def _assign(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign, name: str) -> None:
        """Run `model = f(model)`, wrappers left out."""
        before = _state(self.model)
        value = without_wrappers(cast("ast.expr", node.value), self.local.evaluate, self.course.say)
        if not is_tame(value, self.local.evaluate):
            self.course.leave(value, "reaches beyond the model")
            return
        try:
            made = self.local.evaluate(value)
        except (Exception, SystemExit) as error:  # noqa: BLE001  (any code of the user's)
            self.course.leave(node.value or node, _why(error))
            return
        if not isinstance(made, nn.Module):
            return
        self.model = made
        if name != PLACE:
            self._call_it(name)
        if _state(made) != before:
            self.course.do(node.value if name == PLACE and node.value is not None else node)

    # ---- names

    def _mentions(self, node: ast.AST) -> bool:
        names = {self.name, *self.leading}
        return any(isinstance(n, ast.Name | ast.Attribute) and dotted(n) in names for n in ast.walk(node))

    def _is_part(self, node: ast.expr) -> bool:
        """Tell `model.encoder.layer[0]`, `self.model.parameters()` and the like."""
        while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
            if dotted(node) == self.name or dotted(node) in self.leading:
                return True
            node = node.func if isinstance(node, ast.Call) else node.value
        return dotted(node) == self.name or dotted(node) in self.leading

    def _would_change(self, node: ast.stmt) -> bool:
        return self._mentions(node) and any(changes(inner) for inner in ast.walk(node))


def _state(model: nn.Module) -> list[tuple[int, object, bool]]:
    return [(id(p), p.dtype, p.requires_grad) for p in model.parameters()]


def _why(error: BaseException) -> str:
    if isinstance(error, FactMissingError):
        return f"needs to know {error.fact}: {error.how}"
    line = (str(error).splitlines() or [""])[0][:120]
    return f"fails here ({type(error).__name__}: {line})"
