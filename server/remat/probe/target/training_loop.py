"""How a script trains the model that it makes: its batch, its autocast and its optimizer, read where they stand."""

from __future__ import annotations

import ast
import inspect
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from remat.probe.target.packages import read
from remat.probe.target.scopes import evaluate_in, scopes_around
from remat.probe.target.statements import dotted, holds_training
from remat.probe.target.unwritten import nothing_written

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remat.probe.target.loading import File

_DTYPES = {torch.float16: "fp16", torch.bfloat16: "bf16"}
_MIXED = {"fp16": "fp16", "bf16": "bf16", "16-mixed": "fp16", "bf16-mixed": "bf16"}
_EIGHT_BIT = ("AdamW8bit", "Adam8bit", "PagedAdamW8bit", "PagedAdam8bit")
_NAMED = {
    torch.optim.SGD: "sgd", torch.optim.Adam: "adam", torch.optim.AdamW: "adamw",
    getattr(torch.optim, "Adafactor", None): "adafactor",
}  # fmt: skip
_OF_TRAINER = {
    "adamw_torch": "adamw", "adamw_torch_fused": "adamw-fused", "sgd": "sgd", "adafactor": "adafactor",
    "adamw_bnb_8bit": "adamw-8bit", "adamw_8bit": "adamw-8bit", "paged_adamw_8bit": "adamw-8bit",
}  # fmt: skip
_BATCHES = ("batch_size", "train_batch_size", "micro_batch_size", "device_batch_size")
_LENGTHS = ("block_size", "seq_len", "seq_length", "max_seq_len", "max_seq_length", "sequence_length", "context_length")
_TRL = frozenset(f"{name}Config" for name in ("SFT", "DPO", "GRPO", "KTO", "ORPO", "CPO", "Reward", "RLOO"))
_UNKNOWN = object()


@dataclass(frozen=True, slots=True)
class Said:
    """What a line of the script says, such as `64` or `bf16`."""

    value: str
    line: int
    has_name: bool = True
    """of an optimizer: whether `Variant.optimizer` has a name for it; else it is the name of its class"""


@dataclass(frozen=True, slots=True)
class Loop:
    """What is None the script does not say, says in several ways, or says in a way that only a run can tell.

    `optimizer`: as in `Variant.optimizer`. `other`: an optimizer that has no such name.
    """

    batch: Said | None = None
    seq: Said | None = None
    autocast: Said | None = None
    optimizer: Said | None = None
    other: Said | None = None


def loop_of(file: File) -> Loop:
    """Read a script that trains; another file says nothing."""
    tree = ast.parse(read(file.path))
    calls = sorted((n for n in ast.walk(tree) if isinstance(n, ast.Call)), key=lambda call: call.lineno)
    if not holds_training(tree):
        return Loop()
    reader = _Reader(file, tree, calls)
    with nothing_written():
        optimizers = list(reader.optimizers())
        named = [said for said in optimizers if said.has_name]
        other = next((said for said in optimizers if not said.has_name), None)
        return Loop(
            batch=_only([*reader.batches()] or reader.numbers(_BATCHES)),
            seq=_only([*reader.lengths()] or reader.numbers(_LENGTHS)),
            autocast=_only(reader.autocasts()),
            optimizer=None if other else _only(named),
            other=other,
        )


def _only(found: Iterator[Said] | list[Said]) -> Said | None:
    """The first, where all say the same."""
    every = list(found)
    return every[0] if len({said.value for said in every}) == 1 else None


@dataclass(frozen=True, slots=True)
class _Reader:
    file: File
    tree: ast.Module
    calls: list[ast.Call]

    def value(self, node: ast.expr | None, call: ast.Call) -> object:
        """What an expression stands for; `_UNKNOWN` where only a run tells, or nothing is written."""
        if node is None:
            return _UNKNOWN
        if isinstance(node, ast.Constant):
            return node.value
        try:
            return evaluate_in(self.file, node, scopes_around(self.tree, call))
        except (Exception, SystemExit):  # noqa: BLE001  (any code of the user's)
            return _UNKNOWN

    def keyword(self, call: ast.Call, name: str) -> object:
        return self.value(_given(call, name), call)

    def batches(self) -> Iterator[Said]:
        """The batch of the loader that feeds the training: the one called so, or that shuffles, or the only one."""
        loaders = [call for call in self.calls if _name(call) == "DataLoader"]
        training = [call for call in loaders if self._is_for_training(call)]
        for call in training or (loaders if len(loaders) == 1 else []):
            given = _given(call, "batch_size") or next(iter(call.args[1:2]), None)
            yield from _number(self.value(given, call), call.lineno)
        yield from self._settings("per_device_train_batch_size")

    def lengths(self) -> Iterator[Said]:
        for name in ("max_length", "max_seq_length"):
            yield from self._settings(name)

    def _settings(self, name: str) -> Iterator[Said]:
        for call in (call for call in self.calls if _sets_a_trainer(call)):
            yield from _number(self.keyword(call, name), _line(call, name))

    def numbers(self, names: tuple[str, ...]) -> list[Said]:
        """The numbers that variables of these names are set to; where there are none, fields of these names."""
        set_to: dict[type[ast.stmt], list[Said]] = {ast.Assign: [], ast.AnnAssign: []}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                if any(isinstance(target, ast.Name) and target.id in names for target in targets):
                    set_to[type(node)] += _number(node.value.value, node.lineno)
        return set_to[ast.Assign] or set_to[ast.AnnAssign]

    def _is_for_training(self, call: ast.Call) -> bool:
        if self.keyword(call, "shuffle") is True:
            return True
        assigned = (n for n in ast.walk(self.tree) if isinstance(n, ast.Assign) and n.value is call)
        return any("train" in dotted(target).lower() for node in assigned for target in node.targets)

    def autocasts(self) -> Iterator[Said]:
        for call in self.calls:
            name = _name(call)
            if name == "autocast":
                yield from self._autocast(call)
            elif name == "Accelerator":
                yield from self._mixed(call, "mixed_precision")
            elif name == "Trainer":
                yield from self._mixed(call, "precision")
            elif _sets_a_trainer(call):
                on = (dtype for dtype in ("bf16", "fp16") if self.keyword(call, dtype) is True)
                yield from (Said(dtype, _line(call, dtype)) for dtype in on)

    def _mixed(self, call: ast.Call, name: str) -> Iterator[Said]:
        value = self.keyword(call, name)
        if isinstance(value, str) and value in _MIXED:
            yield Said(_MIXED[value], _line(call, name))

    def _autocast(self, call: ast.Call) -> Iterator[Said]:
        """Torch's own for CUDA, unless it is switched off, or only a run tells whether."""
        made = self.value(call.func, call)
        if not (isinstance(made, type) and issubclass(made, torch.autocast)) or made is torch.cpu.amp.autocast:
            return
        given = _arguments(call, made)
        device = self.value(given.get("device_type"), call)
        enabled = self.value(given["enabled"], call) if "enabled" in given else True
        dtype = self.value(given["dtype"], call) if "dtype" in given else torch.float16  # CUDA's own default
        if device != "cpu" and enabled is True and isinstance(dtype, torch.dtype) and dtype in _DTYPES:
            yield Said(_DTYPES[dtype], call.lineno)

    def optimizers(self) -> Iterator[Said]:
        for call in self.calls:
            if _name(call) in _EIGHT_BIT:
                yield Said("adamw-8bit", call.lineno)
            elif _sets_a_trainer(call):
                name = self.keyword(call, "optim")
                if isinstance(name, str) and name in _OF_TRAINER:
                    yield Said(_OF_TRAINER[name], _line(call, "optim"))
            else:
                yield from self._optimizer(call)

    def _optimizer(self, call: ast.Call) -> Iterator[Said]:
        made = self.value(call.func, call) if _name(call)[:1].isupper() else _UNKNOWN
        if not (isinstance(made, type) and issubclass(made, torch.optim.Optimizer)):
            return
        given = _arguments(call, made)
        name = _NAMED.get(made)
        if name is None or self.value(given.get("amsgrad"), call) is True:
            yield Said(made.__name__ if name is None else f"{made.__name__} with amsgrad", call.lineno, has_name=False)
            return
        momentum = self.value(given["momentum"], call) if "momentum" in given else 0
        name += "-momentum" if name == "sgd" and momentum not in (0, None) else ""  # a number that only a run tells
        form = "-fused" if self.value(given.get("fused"), call) is True else ""
        form = form or ("-forloop" if self.value(given.get("foreach"), call) is False else "")
        yield Said(name + form, call.lineno)


def _arguments(call: ast.Call, callee: type) -> dict[str, ast.expr]:
    """What it is called with, by the names of its parameters."""
    names = list(inspect.signature(callee).parameters)
    positional = dict(
        zip(names, itertools.takewhile(lambda a: not isinstance(a, ast.Starred), call.args), strict=False)
    )
    return {**positional, **{k.arg: k.value for k in call.keywords if k.arg}}


def _name(call: ast.Call) -> str:
    return dotted(call.func).split(".")[-1]


def _sets_a_trainer(call: ast.Call) -> bool:
    return _name(call).endswith("TrainingArguments") or _name(call) in _TRL


def _given(call: ast.Call, name: str) -> ast.expr | None:
    return next((k.value for k in call.keywords if k.arg == name), None)


def _line(call: ast.Call, name: str) -> int:
    given = _given(call, name)
    return call.lineno if given is None else given.lineno


def _number(value: object, line: int) -> Iterator[Said]:
    if type(value) is int and value > 0:
        yield Said(str(value), line)
