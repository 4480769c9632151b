"""Checkpointing in the arguments of a Trainer, which switches it on for the model that it is given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from remat.finding import apply_edits
from remat.lint.code.source import Source
from remat.lint.code.syntax import is_literal
from remat.lint.edits import add_argument, replace
from remat.lint.kv_cache.training_script import read_script
from remat.plan.differing import one_edit
from remat.plan.plan import ByHand, Written
from remat.probe.messages import TRL_CONFIGS

if TYPE_CHECKING:
    import libcst as cst

    from remat.lint.code.source import Call
    from remat.lint.kv_cache.training_script import Script
    from remat.plan.plan import Outcome


def arguments_of(script: Script) -> Call | None:
    """The arguments of the file's Trainer, where there is one of each: the Trainer switches checkpointing on itself."""
    trainers = list(script.meaning(lambda name: is_of(name, "Trainer")))
    arguments = list(script.meaning(lambda name: is_of(name, "TrainingArguments") or name in _TRL))
    return arguments[0] if trainers and len(arguments) == 1 else None


_TRL = frozenset(f"trl.{name}" for name in TRL_CONFIGS)


def is_of(name: str, last: str) -> bool:
    return name.split(".", maxsplit=1)[0] in {"transformers", "trl"} and name.endswith(last)


def switch_on(source: Source, call: Call, names: tuple[str, str], settings: str, line: str) -> Outcome:
    """`names`: of the switch and of its settings. `line`: what to write by hand instead."""
    if call.unpacks_mapping:
        return ByHand("The arguments of the Trainer are unpacked with `**`, which may hold the switch already", line)
    if call.keyword("fsdp") is not None or call.keyword("fsdp_config") is not None:
        return ByHand(
            "With FSDP its own checkpointing is the one to use", 'fsdp_config={"activation_checkpointing": True}'
        )
    said = next((a for n in ("gradient", "activation") if (a := call.keyword(f"{n}_checkpointing_kwargs"))), None)
    on = next((a for n in ("gradient", "activation") if (a := call.keyword(f"{n}_checkpointing"))), None)
    if said is not None or (on is not None and not (is_literal(on.value, "False") or is_literal(on.value, "None"))):
        return ByHand("The arguments of the Trainer say something about checkpointing already", line)
    if on is not None and on.keyword is not None:
        switched = replace(source, call.place, on.value, "True")
        settings_name = f"{on.keyword.value}_kwargs"
    else:
        switched, settings_name = add_argument(source, call, f"{names[0]}=True"), names[1]
    text = apply_edits(source.text, switched)
    again = _same_call(Source(text), source, call)
    more = add_argument(again[0], again[1], f"{settings_name}={settings}") if again else ()
    if not switched or not more or again is None:
        return ByHand("The arguments of the Trainer are laid out in a way that Remat cannot edit", line)
    what = "The Trainer's arguments switch on checkpointing, which the Trainer hands to the model"
    return Written((one_edit(source.text, apply_edits(text, more)),), what)


def _same_call(after: Source, before: Source, call: Call) -> tuple[Source, Call] | None:
    """The call where it now is: what was added stands in it, so it begins where it did."""
    start = before.span(call.place, call.node)
    for one in read_script(after).meaning(lambda name: is_of(name, "TrainingArguments") or name in _TRL):
        span = after.span(one.place, one.node)
        if span is not None and start is not None and span.start == start.start:
            return after, one
    return None


def switched_on(script: Script) -> tuple[Call, cst.Arg] | None:
    """The Trainer's arguments, and the one in them that switches checkpointing on, by whatever value."""
    call = arguments_of(script)
    if call is None:
        return None
    said = (call.keyword(f"{stem}_checkpointing") for stem in ("gradient", "activation"))
    on = [
        one for one in said if one is not None and not (is_literal(one.value, "False") or is_literal(one.value, "None"))
    ]
    return (call, on[0]) if on else None


def switch_off(source: Source, call: Call, said: cst.Arg) -> Outcome:
    edits = replace(source, call.place, said.value, "False") if is_literal(said.value, "True") else ()
    if not edits:
        return ByHand("The arguments of the Trainer take their switch from elsewhere: turn it there")
    return Written(edits, "The Trainer's arguments switch checkpointing off")
