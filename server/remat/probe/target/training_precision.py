"""The autocast that a script's forward runs under, and the optimizer that it makes."""

from __future__ import annotations

import ast
import contextlib
import importlib
from typing import TYPE_CHECKING, cast

import torch

from remat.probe.target.training_script import UNKNOWN, Said, arguments, called, given, line_of, sets_a_trainer
from remat.probe.target.trl_defaults import trl_default

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remat.probe.target.training_script import Script

_DTYPES = {torch.float16: "fp16", torch.bfloat16: "bf16"}
_MIXED = {"fp16": "fp16", "bf16": "bf16", "16-mixed": "fp16", "bf16-mixed": "bf16"}
EIGHT_BIT = ("AdamW8bit", "Adam8bit", "PagedAdamW8bit", "PagedAdam8bit")
_NAMED = {
    torch.optim.SGD: "sgd", torch.optim.Adam: "adam", torch.optim.AdamW: "adamw",
    getattr(torch.optim, "Adafactor", None): "adafactor",
}  # fmt: skip
_OF_TRAINER = {
    "adamw_torch": "adamw", "adamw_torch_fused": "adamw-fused", "sgd": "sgd", "adafactor": "adafactor",
    "adamw_bnb_8bit": "adamw-8bit", "adamw_8bit": "adamw-8bit", "paged_adamw_8bit": "adamw-8bit",
}  # fmt: skip


def autocasts(script: Script) -> Iterator[Said]:
    for call in script.calls:
        name = called(call)
        if name == "autocast":
            yield from _autocast(script, call)
        elif name == "Accelerator":
            yield from _mixed(script, call, "mixed_precision")
        elif name == "Trainer":
            yield from _mixed(script, call, "precision")
        elif sets_a_trainer(call):
            for dtype in ("bf16", "fp16"):
                value = script.keyword(call, dtype) if given(call, dtype) is not None else False
                if value:
                    yield Said(dtype, line_of(call, dtype), value is not UNKNOWN)
            is_open = given(call, "bf16") is None and given(call, "fp16") is None
            if is_open and trl_default(called(call), "bf16") is None:  # TRL's own choice, where the GPU can
                yield Said("bf16", call.lineno)


def _mixed(script: Script, call: ast.Call, name: str) -> Iterator[Said]:
    value = script.keyword(call, name)
    if isinstance(value, str) and value in _MIXED:
        yield Said(_MIXED[value], line_of(call, name))
    elif value is UNKNOWN and given(call, name) is not None:
        yield Said("bf16", line_of(call, name), is_sure=False)


def _autocast(script: Script, call: ast.Call) -> Iterator[Said]:
    """Torch's own for CUDA, unless it is switched off, or only a run tells whether."""
    made = script.value(call.func, call)
    if not (isinstance(made, type) and issubclass(made, torch.autocast)) or made is torch.cpu.amp.autocast:
        return
    taken = arguments(call, made)
    device = script.value(taken.get("device_type"), call)
    enabled = script.value(taken["enabled"], call) if "enabled" in taken else True
    dtype = script.value(taken["dtype"], call) if "dtype" in taken else torch.float16  # CUDA's own default
    reached = script.is_reached(call)
    if device == "cpu" or not enabled or reached is False:
        return
    known = isinstance(dtype, torch.dtype) and dtype in _DTYPES
    is_sure = enabled in (True, 1) and known and reached is True
    yield Said(_DTYPES[cast("torch.dtype", dtype)] if known else "fp16", call.lineno, is_sure)


def optimizers(script: Script) -> Iterator[Said]:
    for call in script.calls:
        if called(call) in EIGHT_BIT:
            yield Said("adamw-8bit", call.lineno)
        elif sets_a_trainer(call):
            name = script.keyword(call, "optim") if given(call, "optim") is not None else _trainer_s_own()
            if isinstance(name, str) and name in _OF_TRAINER:
                yield Said(_OF_TRAINER[name], line_of(call, "optim"))
        else:
            yield from _optimizer(script, call)


def _optimizer(script: Script, call: ast.Call) -> Iterator[Said]:
    made = script.value(call.func, call) if called(call)[:1].isupper() else UNKNOWN
    if not (isinstance(made, type) and issubclass(made, torch.optim.Optimizer)) or script.is_reached(call) is False:
        return
    taken = arguments(call, made)
    for unpacked in (k.value for k in call.keywords if k.arg is None):
        held = script.value(unpacked, call)
        taken |= {n: ast.Constant(v) for n, v in held.items()} if isinstance(held, dict) else {"momentum": unpacked}
    name = _NAMED.get(made)
    if name is None or script.value(taken.get("amsgrad"), call) is True:
        yield Said(made.__name__ if name is None else f"{made.__name__} with amsgrad", call.lineno, is_sure=False)
        return
    momentum = script.value(taken["momentum"], call) if "momentum" in taken else 0
    name += "-momentum" if name == "sgd" and momentum not in (0, None) else ""  # a number that only a run tells
    form = "-fused" if script.value(taken.get("fused"), call) is True else ""
    form = form or ("-forloop" if script.value(taken.get("foreach"), call) is False else "")
    yield Said(name + form, call.lineno)


def _trainer_s_own() -> object:
    """The optimizer of transformers' Trainer where the script names none: it differs from version to version."""
    with contextlib.suppress(Exception):  # what its import runs into
        default = getattr(importlib.import_module("transformers").TrainingArguments, "optim", None)
        return getattr(default, "value", default)
    return None
