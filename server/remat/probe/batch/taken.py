"""Which parameters a forward takes, and what their annotations and defaults say of them."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from types import FunctionType
from typing import TYPE_CHECKING, Literal

from remat.probe.batch.asked_inputs import ask_for
from remat.probe.batch.forward_source import commented_types, real_forward
from remat.probe.built import FactMissingError

if TYPE_CHECKING:
    from torch import nn

    from remat.probe.messages import Location

_TENSOR = re.compile(r"(torch\.)?((Long|Int|Float|Half|Bool)?Tensor)")
_TENSORS = re.compile(r"((typing\.)?(list|sequence)\[)(torch\.)?tensor\]")
_MAPPINGS = re.compile(r"list\[(typing\.)?dict\[str, (torch\.)?tensor\]\]")
_PLAIN: dict[str, int | float] = {"int": 0, "float": 1.0, "bool": False}


@dataclass(frozen=True, slots=True)
class Taken:
    """The parameters of a forward: without a default; a tensor, though None is the default; other with None."""

    needed: list[str]
    expected: list[str]
    optional: list[str]
    lists: dict[str, Literal["tensors", "mappings"]]
    """those that are lists with one entry for each sample, as their annotation says"""
    plain: dict[str, int | float]
    """those that are numbers, as their annotation says"""
    all_open: bool = False
    """none has to be given: the first counts as needed"""


def parameters(model: nn.Module, place: Location) -> Taken:
    parameters = list(inspect.signature(real_forward(model)).parameters.values())
    open_ended = [p for p in parameters if p.kind in {p.VAR_POSITIONAL, p.VAR_KEYWORD}]
    needed = [p.name for p in parameters if p.default is p.empty and p not in open_ended]
    if "_forward_unimplemented" in str(model.forward):
        how = "write remat_probe.py with build(), which returns a module whose forward does what a step does"
        if there := methods(model):
            others = f", or {', '.join(there[1:])}" if there[1:] else ""
            line = f'add above line {place.line} of {place.path}: # remat: probe(call="{there[0]}"){others}'
            how = f"{line}; where a step calls several, {how}"
        raise FactMissingError(f"what a step calls: `{type(model).__name__}` has no forward", how, place)
    if not needed and (open_ended or not parameters):
        raise ask_for(f"what `{type(model).__name__}.forward` takes: its parameters have no names", {}, place)
    all_open = not needed
    needed = needed or [parameters[0].name]
    left = [p for p in parameters if p.default is None and p.name not in needed]
    types = commented_types(real_forward(model))
    lists = {p.name: kind for p in parameters if (kind := _list_of(types.get(p.name) or _annotation(p))) is not None}
    expected = [p.name for p in left if _TENSOR.fullmatch(_annotation(p)) or lists.get(p.name) == "mappings"]
    plain = {p.name: _PLAIN[_annotation(p)] for p in parameters if _annotation(p) in _PLAIN}
    return Taken(needed, expected, [p.name for p in left if p.name not in expected], lists, plain, all_open)


def methods(model: nn.Module) -> list[str]:
    """Return the methods of a class of the user's that take something, those that a step likely calls first."""
    written = [v for n, v in vars(type(model)).items() if isinstance(v, FunctionType) and not n.startswith("_")]
    taking = [v for v in written if v.__code__.co_argcount > 1]
    return [v.__name__ for v in sorted(taking, key=lambda v: (_unlikely(v.__name__), -v.__code__.co_argcount))]


def _unlikely(name: str) -> int:
    """Tell how unlikely a step calls a method: what makes a loss, what a forward may be, what only sets something."""
    if re.search(r"generat|sampl|infer|predict|configur|optimizer|load|save|^get_|^set_", name):
        return 2
    return 0 if re.search(r"loss|training_step", name) else 1


def _annotation(parameter: inspect.Parameter) -> str:
    annotated = parameter.annotation
    plain = isinstance(annotated, type) and not hasattr(annotated, "__origin__")
    return str(getattr(annotated, "__name__", "")) if plain else str(annotated)


def _list_of(annotated: str) -> Literal["tensors", "mappings"] | None:
    annotated = annotated.lower()
    if _MAPPINGS.search(annotated):
        return "mappings"
    return "tensors" if _TENSORS.fullmatch(annotated) else None
