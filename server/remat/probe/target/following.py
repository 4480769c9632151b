"""A model of a script, made as there and followed to its training, and the other models that are run beside it."""

from __future__ import annotations

import ast
import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from torch import nn

from remat.probe.built import FactMissingError
from remat.probe.messages import TRL_CONFIGS
from remat.probe.target.course import Course
from remat.probe.target.followed import follow
from remat.probe.target.other_models import is_fake, other_models
from remat.probe.target.packages import read
from remat.probe.target.scopes import evaluate_in, scopes_around
from remat.probe.target.statements import dotted
from remat.probe.target.switches import by_trainer, switched
from remat.probe.target.switches import said as said_of
from remat.probe.target.training_loop import loop_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from remat.probe.target.calls import Callee
    from remat.probe.target.loading import File


@dataclass(slots=True)
class Following:
    """Makes a model as `call` of a script makes it, and has happen to it what happens there."""

    file: File
    call: ast.Call
    make: Callable[[], object]
    course: Course | None = None
    beside_bytes: int = 0
    """of other models that the script only runs"""

    def made(self) -> object:
        self.course = Course(self.file)
        model = follow(self.make(), self.file, self.call, self.course)
        if self.course.left and isinstance(model, nn.Module) and not any(p.requires_grad for p in model.parameters()):
            raise FactMissingError(
                f"what of the model is trained: the script freezes all of it, and {self.course.left[-1]}",
                f"name what makes the model that is trained: {self.file.path.name}:LINE, or # remat: probe(model=…)",
            )
        tree = ast.parse(read(self.file.path))
        self._see_others(model, tree)
        model = self._adapted(model, tree)
        if self.course.has_switch:
            return model
        found = list(by_trainer(tree))
        self.course.beside += said_of(found)
        return switched(model, found, lambda given: evaluate_in(self.file, given, scopes_around(tree, given)))

    def _adapted(self, model: object, tree: ast.Module) -> object:
        """With the adapters that a trainer is told to add: `SFTTrainer(model, peft_config=…)`."""
        calls = (n for n in ast.walk(tree) if isinstance(n, ast.Call) and dotted(n.func).endswith("Trainer"))
        for call in calls:
            name = dotted(call.func).split(".")[-1]
            if self.course is not None and name.replace("Trainer", "Config") in TRL_CONFIGS:
                self.course.beside.append(
                    f"the loss is the model's own: what {name} computes in its place is not counted"
                )
            node = next((k.value for k in call.keywords if k.arg == "peft_config"), None)
            if node is None or self.course is None or hasattr(model, "peft_config"):
                continue
            try:
                config = evaluate_in(self.file, node, scopes_around(tree, call))
                adapt = cast("Callee[object]", importlib.import_module("peft").get_peft_model)
                model = model if config is None else adapt(model, config)
            except (Exception, SystemExit) as error:  # noqa: BLE001  (any code of the user's)
                self.course.leave(node, f"fails here ({type(error).__name__}: {error})")
            else:
                self.course.beside += [f"adapters are added as {self.course.at(node)} says"] if config else []
        return model

    def _see_others(self, model: object, tree: ast.Module) -> None:
        """Say what other models the script runs, once the names of this one are known."""
        if self.course is not None and isinstance(model, nn.Module) and is_fake(model):
            trained = {root for making in loop_of(self.file).makings for root in making.roots}
            others = list(other_models(self.file, tree, self.call, set(self.course.names.values()), trained))
            self.course.beside += (other.said for other in others)
            self.beside_bytes = sum(other.counted for other in others)

    def names(self) -> dict[int, str]:
        return {} if self.course is None else self.course.names

    def said(self) -> tuple[str, ...]:
        return () if self.course is None else self.course.sentences()
