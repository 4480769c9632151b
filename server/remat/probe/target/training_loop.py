"""How a script trains the model that it makes: its batch, its autocast and its optimizer, read where they stand."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from remat.probe.built import Habits
from remat.probe.target.drawn import drawn_batches, drawn_lengths
from remat.probe.target.own_optimizer import makings
from remat.probe.target.statements import dotted
from remat.probe.target.training_habits import accumulations, by_hand, habits_of, remarks
from remat.probe.target.training_precision import autocasts, optimizers
from remat.probe.target.training_script import LOOKING, Said, called, given, given_to, line_of, reading, sets_a_trainer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from remat.probe.target.loading import File
    from remat.probe.target.own_optimizer import Making
    from remat.probe.target.training_script import Script

_TRAINING = re.compile(r"(?i)(?:^|[_. ])train")
_CONFIGURATION = re.compile(r"\w*(?:Config|Configuration|Args|Arguments|[Hh]?[Pp]arams|Options|Cfg|Settings)")
_BATCHES = ("batch_size", "train_batch_size", "micro_batch_size", "device_batch_size")
_LENGTHS = ("block_size", "seq_len", "seq_length", "max_seq_len", "max_seq_length", "sequence_length", "context_length")


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
    accumulates: Said | None = None
    habits: Habits = field(default_factory=Habits)
    remarks: tuple[Said, ...] = ()
    """on these; `{}` stands for the line"""
    makings: tuple[Making, ...] = ()
    """of optimizers, by the script's own calls"""


def loop_of(file: File) -> Loop:
    """Read a script that trains; another file says nothing."""
    with reading(file) as script:
        if script is None:
            return Loop()
        cast, made = list(autocasts(script)), list(optimizers(script))
        makes = tuple(makings(script))
        other = next((said for said in made if not said.is_sure), None)
        return Loop(
            batch=_only(
                _batches(script) or drawn_batches(script) or _numbers(script, _BATCHES) or _configured(script, _BATCHES)
            ),
            seq=_only(_lengths(script) or drawn_lengths(script) or _numbers(script, _LENGTHS)),
            autocast=_only(said for said in cast if said.is_sure),
            unsure_autocast=next((said for said in cast if not said.is_sure), None),
            optimizer=None if other else _only(made) if made or makes else by_hand(script),
            other=other,
            accumulates=_first(accumulations(script)),
            habits=habits_of(script),
            remarks=tuple(remarks(script)),
            makings=makes,
        )


def _first(found: Iterable[Said]) -> Said | None:
    """The one that all say; where they differ it is as unsure as what only a run tells."""
    every = list(found)
    differ = len({said.value for said in every}) > 1
    return replace(every[0], is_sure=False) if differ else next(iter(every), None)


def _only(found: Iterable[Said | None]) -> Said | None:
    """The first, where all say the same, and none says what only a run tells."""
    every = list(found)
    values = {None if said is None else said.value for said in every}
    return every[0] if len(values) == 1 else None


def _batches(script: Script) -> list[Said | None]:
    """The batch of the loader that feeds the training: the one called so, or that shuffles, or the only one."""
    loaders = [call for call in script.calls if called(call) == "DataLoader"]
    names = {id(call): _assigned_to(script, call) for call in loaders}
    loaders = [call for call in loaders if not LOOKING.search(names[id(call)])]
    training = [call for call in loaders if _TRAINING.search(names[id(call)])]
    training = training or [call for call in loaders if script.keyword(call, "shuffle") is True]
    found: list[Said | None] = []
    for call in training or loaders:
        size = given(call, "batch_size") or next(iter(call.args[1:2]), None)
        found.append(_number(script.value(size, call), call.lineno))
    return found or _settings(script, "per_device_train_batch_size")


def _lengths(script: Script) -> list[Said | None]:
    return _settings(script, "max_length") or _settings(script, "max_seq_length")


def _settings(script: Script, name: str) -> list[Said | None]:
    calls = [call for call in script.calls if sets_a_trainer(call) and given(call, name) is not None]
    return [_number(script.keyword(call, name), line_of(call, name)) for call in calls]


def _assigned_to(script: Script, call: ast.Call) -> str:
    for node in ast.walk(script.tree):
        if isinstance(node, ast.Assign) and any(inner is call for inner in ast.walk(node.value)):
            return " ".join(dotted(target) for target in node.targets)
    return ""


def _numbers(script: Script, names: tuple[str, ...]) -> list[Said | None]:
    """The numbers that variables of these names are set to. What is set in another way, too, is not known."""
    found: list[Said | None] = []
    fields = {id(n) for owner in ast.walk(script.tree) if isinstance(owner, ast.ClassDef) for n in owner.body}
    for node in (n for n in ast.walk(script.tree) if id(n) not in script.aside | fields):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            pairs = [pair for target in targets for pair in given_to(target, node.value)]
            found += [_number(getattr(value, "value", None), node.lineno) for name, value in pairs if name in names]
        elif isinstance(node, ast.AugAssign) and dotted(node.target) in names:
            found.append(None)
    return found


def _configured(script: Script, names: tuple[str, ...]) -> list[Said | None]:
    """The numbers that a configuration of the file's own is made with: given, or its class's own."""
    found: list[Said | None] = []
    classes = {node.name: node for node in ast.walk(script.tree) if isinstance(node, ast.ClassDef)}
    for call in (call for call in script.calls if _CONFIGURATION.fullmatch(called(call)) and called(call) in classes):
        told = [name for name in names if given(call, name) is not None]
        found += [_number(script.keyword(call, name), line_of(call, name)) for name in told]
        fields = (node for node in classes[called(call)].body if isinstance(node, ast.AnnAssign) and not told)
        own = [field for field in fields if dotted(field.target) in names]
        found += [_number(getattr(field.value, "value", None), field.lineno) for field in own]
    return found


def _number(value: object, line: int) -> Said | None:
    return Said(str(value), line) if type(value) is int and value > 0 else None
