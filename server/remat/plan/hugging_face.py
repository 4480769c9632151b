"""A plan for a model of transformers: its own switch, in `TrainingArguments` or on the line after the model is made."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from remat.finding import Edit
from remat.lint.code.syntax import dotted
from remat.lint.kv_cache.decoder_checkpointing import KBIT, METHODS
from remat.lint.kv_cache.model_origins import all_models
from remat.lint.kv_cache.training_script import read_script
from remat.lint.kv_cache.turning_cache_off import line_beside
from remat.plan.plan import ByHand, Written
from remat.plan.selective import policy
from remat.plan.switched import change_switch
from remat.plan.trainer_arguments import arguments_of, switch_on, switched_on

if TYPE_CHECKING:
    from remat.lint.code.source import Call, Source
    from remat.lint.kv_cache.training_script import Script
    from remat.lint.rule import Context
    from remat.plan.plan import Outcome, Place, Plan
    from remat.plan.stacks import Library
    from remat.versions import Versions

_KEEP_THE_OBJECT = frozenset(["to", "cuda", "cpu", "half", "float", "bfloat16", "double", "train", "requires_grad_"])
_KEEP_THE_METHOD = frozenset({"peft.get_peft_model", "peft.mapping.get_peft_model"})
_TRAIN = re.compile(r"\.train\(\s*(?:True\s*)?\)|Trainer\(")


@dataclass(frozen=True, slots=True)
class Made:
    """The call that makes a model of transformers, and what keeps it; None where it is not kept as it is."""

    call: Call
    name: str | None


@dataclass(frozen=True, slots=True)
class _Switch:
    """What transformers calls it: other names since 5.23, where the old ones are deprecated."""

    flag: str
    settings: str
    method: str
    counts_layers: bool

    @staticmethod
    def of(versions: Versions) -> _Switch:
        new = versions.at_least("transformers", "5.23") is True
        stem = "activation_checkpointing" if new else "gradient_checkpointing"
        return _Switch(stem, f"{stem}_kwargs", f"{stem}_enable", counts_layers=new)


def model_on(source: Source, place: Place) -> Made | None:
    """The model of transformers that is meant, if one is."""
    script = read_script(source)
    calls = [model.call for model in all_models(script)]
    if place.line is not None:
        calls = [call for call in calls if _covers(source, call, place.line)]
    elif place.name is not None:
        calls = [call for call in calls if _kept_as(call) == place.name]
    return Made(calls[-1], _kept_as(calls[-1])) if len({id(call.node) for call in calls}) == 1 else None


def by_library(found: Library) -> Made:
    return Made(found.call, found.name)


def _covers(source: Source, call: Call, line: int) -> bool:
    span = source.span(call.place, call.node)
    if span is None:
        return False
    first = source.text.count("\n", 0, span.start) + 1
    return first <= line <= first + source.text.count("\n", span.start, span.end)


def _kept_as(call: Call) -> str | None:
    """`model` of `model = AutoModel….from_pretrained(…).to(device)`; None where something else is kept."""
    for above in call.place.parsed.ancestors(call.node):
        if isinstance(above, cst.Assign):
            return (".".join(dotted(above.targets[0].target)) or None) if len(above.targets) == 1 else None
        called = above.func if isinstance(above, cst.Call) else None
        if isinstance(called, cst.Attribute) and called.attr.value in _KEEP_THE_OBJECT:
            continue
        if isinstance(called, cst.Name) and called.value == "get_peft_model":
            continue
        if not isinstance(above, cst.Attribute | cst.Arg):
            return None
    return None


def write_for_library(source: Source, made: Made, plan: Plan, context: Context) -> Outcome:
    script, switch = read_script(source), _Switch.of(context.versions)
    settings, policies = '{"use_reentrant": False}', list[Edit]()
    if plan.way == "selective":
        span = source.span(made.call.place, made.call.node)
        contexts, _, policies = policy(source, span.start if span else 0)
        settings = settings.replace("}", f', "context_fn": {contexts}}}')
    if source.text.count("'") > source.text.count('"'):
        settings = settings.replace('"', "'")
    given = [f"every_n_layers={plan.every}"] if plan.every > 1 else []
    line = f"{made.name or 'model'}.{switch.method}({', '.join([*given, f'{switch.settings}={settings}'])})"
    if why := _why_not(script, plan, switch, context):
        return ByHand(why, line if plan.way == "all" else "")
    switches = list(script.named(*METHODS))
    if switches or plan.way == "none":
        return change_switch(source, script, made, switches, "" if plan.way == "none" else line, policies)
    by_arguments = plan.way == "all" and not (made.name or "").startswith("self.")  # which hold what JSON can
    arguments = arguments_of(script) if by_arguments else None
    if arguments is not None:
        return switch_on(source, arguments, (switch.flag, switch.settings), settings, line)
    if switched_on(script) is not None:
        return ByHand("The arguments of the Trainer switch checkpointing on already, and would do so after this", line)
    if made.name is None:
        return ByHand("The model is not kept in a variable by the statement that makes it", line)
    edit = line_beside(source, made.call, line, before=False)
    if edit is None:
        return ByHand("The line that makes the model holds more than that", line)
    what = f"`{made.name}` checkpoints with transformers' own switch, on the line after it is made"
    what += ", keeping what products and attention make" if plan.way == "selective" else ""
    return Written((*policies, edit), what, tuple(_about_mode(source, made)))


def _why_not(script: Script, plan: Plan, switch: _Switch, context: Context) -> str | None:
    if plan.way == "none":
        kbit = next(script.meaning(lambda name: name in KBIT), None)
        where = _line(script, kbit) if kbit is not None else 0
        return f"line {where} prepares the model: give it use_gradient_checkpointing=False" if where else None
    if context.versions.at_least("transformers", "4.35") is False:
        return "transformers before 4.35 takes no use_reentrant: update it first"
    if plan.every > 1 and not switch.counts_layers:
        return "transformers before 5.23 checkpoints every layer or none, and its version here is older or not known"
    if plan.way not in {"all", "selective"} and plan.every == 1:
        return "transformers' own switch checkpoints every layer or every n-th, not these"
    if context.project.adapters_under_zero3:
        return "with adapters under ZeRO-3 non-reentrant checkpointing fails: frozen weights are empty by then"
    for call in script.meaning(lambda name: name in KBIT):
        return (
            f"prepare_model_for_kbit_training on line {_line(script, call)} switches it on for a quantised model: give "
            f'it gradient_checkpointing_kwargs={{"use_reentrant": False}}'
        )
    return None


def _line(script: Script, call: Call) -> int:
    span = script.source.span(call.place, call.node)
    return script.source.text.count("\n", 0, span.start) + 1 if span else 0


def _about_mode(source: Source, made: Made) -> list[str]:
    """from_pretrained gives a model in eval mode, in which the layers do not checkpoint."""
    loaded = any(name.endswith("from_pretrained") for name in made.call.names)
    if not loaded or _TRAIN.search(source.text):
        return []
    return [f"from_pretrained() returns the model in eval mode, where nothing is recomputed: call {made.name}.train()"]
