"""How a script trains the model that it makes: its batch, its autocast and its optimizer, read where they stand."""

from __future__ import annotations

import ast
import contextlib
import importlib
import inspect
import itertools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import torch

from remat.probe.target.packages import read
from remat.probe.target.scopes import evaluate_in, scopes_around
from remat.probe.target.statements import dotted, holds_training, is_main_guard
from remat.probe.target.unwritten import nothing_written

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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
_LOOKING = re.compile(r"(?i)(?:^|[_. ])(?:eval|val(?!u)|test|infer|predict|sample|generat|estimat)")
_TRAINING = re.compile(r"(?i)(?:^|[_. ])train")
_CONFIGURATION = re.compile(r"\w*(?:Config|Configuration|Args|Arguments|[Hh]?[Pp]arams|Options|Cfg|Settings)")
_BATCHES = ("batch_size", "train_batch_size", "micro_batch_size", "device_batch_size")
_LENGTHS = ("block_size", "seq_len", "seq_length", "max_seq_len", "max_seq_length", "sequence_length", "context_length")
_TRL = frozenset(f"{name}Config" for name in ("SFT", "DPO", "GRPO", "KTO", "ORPO", "CPO", "Reward", "RLOO"))
_UNKNOWN = object()


@dataclass(frozen=True, slots=True)
class Said:
    """What a line of the script says, such as `64` or `bf16`."""

    value: str
    line: int
    is_sure: bool = True
    """An optimizer without a name in `Variant.optimizer` is not, nor an autocast on which only a run decides."""


@dataclass(frozen=True, slots=True)
class Loop:
    """What is None the script does not say, says in several ways, or says in a way that only a run can tell.

    `optimizer`: as in `Variant.optimizer`. `other`: an optimizer that has no such name.
    """

    batch: Said | None = None
    seq: Said | None = None
    autocast: Said | None = None
    unsure_autocast: Said | None = None
    optimizer: Said | None = None
    other: Said | None = None


def loop_of(file: File) -> Loop:
    """Read a script that trains; another file says nothing."""
    tree = ast.parse(read(file.path))
    if not holds_training(tree):
        return Loop()
    aside = {id(n) for function in ast.walk(tree) if _only_looks(function) for n in ast.walk(function)}
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and id(n) not in aside]
    reader = _Reader(file.twin(), tree, sorted(calls, key=lambda call: call.lineno), aside)
    with nothing_written(), _with_a_gpu():
        autocasts, optimizers = list(reader.autocasts()), list(reader.optimizers())
        named = [said for said in optimizers if said.is_sure]
        other = next((said for said in optimizers if not said.is_sure), None)
        return Loop(
            batch=_only(reader.batches() or reader.numbers(_BATCHES) or reader.configured(_BATCHES)),
            seq=_only(reader.lengths() or reader.numbers(_LENGTHS)),
            autocast=_only(said for said in autocasts if said.is_sure),
            unsure_autocast=next((said for said in autocasts if not said.is_sure), None),
            optimizer=None if other else _only(named),
            other=other,
        )


@contextlib.contextmanager
def _with_a_gpu() -> Iterator[None]:
    """Let the script find the GPU that it is written for, whatever this machine has."""
    kept = {name: getattr(torch.cuda, name) for name in ("is_available", "is_bf16_supported", "device_count")}
    for name in kept:
        setattr(torch.cuda, name, lambda *_, **__: 1)  # as many, and yes
    try:
        yield
    finally:
        for name, was in kept.items():
            setattr(torch.cuda, name, was)


def _only_looks(node: ast.AST) -> bool:
    """Tell whether a function evaluates, or draws samples, and does not train."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or holds_training(node):
        return False
    decorators = {dotted(d.func if isinstance(d, ast.Call) else d).split(".")[-1] for d in node.decorator_list}
    return bool(_LOOKING.search(node.name) or decorators & {"no_grad", "inference_mode"})


def _only(found: Iterable[Said | None]) -> Said | None:
    """The first, where all say the same, and none says what only a run tells."""
    every = list(found)
    values = {None if said is None else said.value for said in every}
    return every[0] if len(values) == 1 else None


@dataclass(frozen=True, slots=True)
class _Reader:
    """`aside`: the nodes, by identity, of functions that do not train. What is found and not known is None."""

    file: File
    tree: ast.Module
    calls: list[ast.Call]
    aside: set[int]

    def value(self, node: ast.expr | None, call: ast.AST) -> object:
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

    def batches(self) -> list[Said | None]:
        """The batch of the loader that feeds the training: the one called so, or that shuffles, or the only one."""
        loaders = [call for call in self.calls if _name(call) == "DataLoader"]
        names = {id(call): self._assigned_to(call) for call in loaders}
        loaders = [call for call in loaders if not _LOOKING.search(names[id(call)])]
        training = [call for call in loaders if _TRAINING.search(names[id(call)])]
        training = training or [call for call in loaders if self.keyword(call, "shuffle") is True]
        found: list[Said | None] = []
        for call in training or loaders:
            given = _given(call, "batch_size") or next(iter(call.args[1:2]), None)
            found.append(_number(self.value(given, call), call.lineno))
        return found or self._settings("per_device_train_batch_size")

    def lengths(self) -> list[Said | None]:
        return self._settings("max_length") or self._settings("max_seq_length")

    def _settings(self, name: str) -> list[Said | None]:
        given = [call for call in self.calls if _sets_a_trainer(call) and _given(call, name) is not None]
        return [_number(self.keyword(call, name), _line(call, name)) for call in given]

    def _assigned_to(self, call: ast.Call) -> str:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Assign) and any(inner is call for inner in ast.walk(node.value)):
                return " ".join(dotted(target) for target in node.targets)
        return ""

    def numbers(self, names: tuple[str, ...]) -> list[Said | None]:
        """The numbers that variables of these names are set to. What is set in another way, too, is not known."""
        found: list[Said | None] = []
        fields = {id(n) for owner in ast.walk(self.tree) if isinstance(owner, ast.ClassDef) for n in owner.body}
        for node in (n for n in ast.walk(self.tree) if id(n) not in self.aside | fields):
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                pairs = [pair for target in targets for pair in _pairs(target, node.value)]
                found += [_number(getattr(value, "value", None), node.lineno) for name, value in pairs if name in names]
            elif isinstance(node, ast.AugAssign) and dotted(node.target) in names:
                found.append(None)
        return found

    def configured(self, names: tuple[str, ...]) -> list[Said | None]:
        """The numbers that a configuration of the file's own is made with: given, or its class's own."""
        found: list[Said | None] = []
        classes = {node.name: node for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef)}
        for call in (call for call in self.calls if _CONFIGURATION.fullmatch(_name(call)) and _name(call) in classes):
            given = [name for name in names if _given(call, name) is not None]
            found += [_number(self.keyword(call, name), _line(call, name)) for name in given]
            fields = (node for node in classes[_name(call)].body if isinstance(node, ast.AnnAssign) and not given)
            own = [field for field in fields if dotted(field.target) in names]
            found += [_number(getattr(field.value, "value", None), field.lineno) for field in own]
        return found

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
                for dtype in ("bf16", "fp16"):
                    value = self.keyword(call, dtype) if _given(call, dtype) is not None else False
                    if value:
                        yield Said(dtype, _line(call, dtype), value is not _UNKNOWN)

    def _is_reached(self, call: ast.Call) -> bool | None:
        """Tell whether the conditions around a call hold; None where only a run tells."""
        is_sure = True
        for node in ast.walk(self.tree):
            if isinstance(node, ast.If | ast.IfExp) and any(inner is call for inner in ast.walk(node)):
                body = node.body if isinstance(node.body, list) else [node.body]
                in_body = any(inner is call for part in body for inner in ast.walk(part))
                in_test = any(inner is call for inner in ast.walk(node.test))
                test = True if in_test or is_main_guard(node) else self.value(node.test, call)
                if test is _UNKNOWN:
                    is_sure = False
                elif not in_test and bool(test) != in_body:
                    return False
        return True if is_sure else None

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
        reached = self._is_reached(call)
        if device == "cpu" or not enabled or reached is False:
            return
        known = isinstance(dtype, torch.dtype) and dtype in _DTYPES
        is_sure = enabled in (True, 1) and known and reached is True
        yield Said(_DTYPES[cast("torch.dtype", dtype)] if known else "fp16", call.lineno, is_sure)

    def optimizers(self) -> Iterator[Said]:
        for call in self.calls:
            if _name(call) in _EIGHT_BIT:
                yield Said("adamw-8bit", call.lineno)
            elif _sets_a_trainer(call):
                name = self.keyword(call, "optim") if _given(call, "optim") is not None else _trainer_s_own()
                if isinstance(name, str) and name in _OF_TRAINER:
                    yield Said(_OF_TRAINER[name], _line(call, "optim"))
            else:
                yield from self._optimizer(call)

    def _optimizer(self, call: ast.Call) -> Iterator[Said]:
        made = self.value(call.func, call) if _name(call)[:1].isupper() else _UNKNOWN
        if not (isinstance(made, type) and issubclass(made, torch.optim.Optimizer)):
            return
        given = _arguments(call, made)
        for unpacked in (k.value for k in call.keywords if k.arg is None):
            held = self.value(unpacked, call)
            given |= {n: ast.Constant(v) for n, v in held.items()} if isinstance(held, dict) else {"momentum": unpacked}
        name = _NAMED.get(made)
        if name is None or self.value(given.get("amsgrad"), call) is True:
            yield Said(made.__name__ if name is None else f"{made.__name__} with amsgrad", call.lineno, is_sure=False)
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


def _trainer_s_own() -> object:
    """The optimizer of transformers' Trainer where the script names none: it differs from version to version."""
    with contextlib.suppress(Exception):  # what its import runs into
        default = getattr(importlib.import_module("transformers").TrainingArguments, "optim", None)
        return getattr(default, "value", default)
    return None


def _sets_a_trainer(call: ast.Call) -> bool:
    return _name(call).endswith("TrainingArguments") or _name(call) in _TRL


def _given(call: ast.Call, name: str) -> ast.expr | None:
    return next((k.value for k in call.keywords if k.arg == name), None)


def _line(call: ast.Call, name: str) -> int:
    given = _given(call, name)
    return call.lineno if given is None else given.lineno


def _number(value: object, line: int) -> Said | None:
    return Said(str(value), line) if type(value) is int and value > 0 else None


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """What is given to which name: `batch_size, length = 12, 128`."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        for one, given in zip(target.elts, value.elts, strict=True):
            yield from _pairs(one, given)
    else:
        yield dotted(target), value
