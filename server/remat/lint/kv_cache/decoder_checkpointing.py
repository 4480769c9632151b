"""Where a file turns checkpointing on for a Hugging Face decoder, and what then trains it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import libcst as cst

from remat.lint.code.gradients import surely_without_gradients
from remat.lint.code.syntax import dotted, is_literal, string_value, walk_here
from remat.lint.kv_cache.hugging_face import CLASSIFIER, Kind, kind_of
from remat.lint.kv_cache.model_origins import Model, all_models, models_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remat.lint.code.source import Call
    from remat.lint.kv_cache.training_script import Script

METHODS = ("gradient_checkpointing_enable", "activation_checkpointing_enable")
KBIT = ("peft.prepare_model_for_kbit_training", "peft.prepare_model_for_int8_training")
_KBIT_PLACE = {"prepare_model_for_kbit_training": 1, "prepare_model_for_int8_training": 2}
_TRAINERS = ("transformers.Trainer", "transformers.Seq2SeqTrainer")
_ARGUMENTS = ("transformers.TrainingArguments", "transformers.Seq2SeqTrainingArguments")
_CLASS = re.compile(r"class[ \t]+(\w+)[ \t]*\(([^()]*)\)[ \t]*:")
_FLAGS = ("gradient_checkpointing", "activation_checkpointing")
_SETS_CACHE = re.compile(r"\.config\.use_cache\s*=")
_QUANTIZED = frozenset({"load_in_8bit", "load_in_4bit", "quantization_config"})


class How(Enum):
    METHOD = "the model's own method"
    KBIT = "PEFT's preparation of a quantized model"
    ARGUMENTS = "TrainingArguments(gradient_checkpointing=…)"
    FLAG = "a flag of TrainingArguments that the command line sets"


@dataclass(frozen=True, slots=True)
class Enabling:
    """`call`: where the finding stands. `model`: what is checkpointed, as written there; None where it is not said."""

    how: How
    call: Call
    node: cst.CSTNode
    models: tuple[Model, ...]
    model: str | None


class Trained(Enum):
    BY_LOOP = "a loop in this file"
    BY_TRAINER = "transformers' Trainer"
    ELSEWHERE = "nobody here, or a trainer that is not known"


def enablings(script: Script) -> Iterator[Enabling]:
    """Each place that turns the model's own checkpointing on, for models that are decoders for certain."""
    found = [*_methods(script), *_preparations(script), *_arguments(script)]
    yield from found or _flags(script)


def decoders(script: Script, models: list[Model] | None) -> tuple[Model, ...]:
    """`models` where each of them is a decoder, else none. A classifier is one where its file sets its cache."""
    sets_cache = _SETS_CACHE.search(script.source.text) is not None
    known = models and all(kind_of(m.cls) is Kind.DECODER or (sets_cache and m.cls == CLASSIFIER) for m in models)
    return tuple(models) if models and known else ()


def _methods(script: Script) -> Iterator[Enabling]:
    for call in script.named(*METHODS):
        func = call.node.func
        if isinstance(func, cst.Attribute) and not _forwards(call, func.attr.value):
            models = decoders(script, models_of(script, func.value, call.scope, call.place))
            if models:
                yield Enabling(How.METHOD, call, call.node, models, ".".join(dotted(func.value)))


def _forwards(call: Call, name: str) -> bool:
    """Whether this is a wrapper class passing the request on to the model it holds."""
    scope = call.scope
    while scope is not None:
        if isinstance(scope.node, cst.FunctionDef) and scope.node.name.value == name:
            return True
        scope = scope.parent
    return False


def _preparations(script: Script) -> Iterator[Enabling]:
    for call in script.meaning(lambda name: _public(name) in KBIT):
        asked = checkpointing_asked(call)
        model = call.keyword("model") or (call.positional[0] if call.positional else None)
        if model is None or call.unpacks_mapping or (asked is not None and is_literal(asked.value, "False")):
            continue
        models = decoders(script, models_of(script, model.value, call.scope, call.place))
        if models and _quantized(script):
            yield Enabling(
                How.KBIT, call, call.node, models, assigned_name(script, call) or ".".join(dotted(model.value))
            )


def checkpointing_asked(call: Call) -> cst.Arg | None:
    """PEFT's `use_gradient_checkpointing` argument; omitted means True."""
    named = call.keyword("use_gradient_checkpointing")
    at = _KBIT_PLACE.get((dotted(call.node.func) or [""])[-1], 1)
    return named or (call.positional[at] if len(call.positional) > at else None)


def assigned_name(script: Script, call: Call) -> str:
    """The variable that the call's result is bound to; empty where it is not bound as it is."""
    return next((n for n in sorted(script.bound) if any(a.value is call.node for a in script.assigned(n))), "")


def _quantized(script: Script) -> bool:
    """Whether something loads a model in 8 or 4 bits: PEFT's preparation enables checkpointing for no other."""
    for place in script.places:
        for kind in (cst.Call, cst.Dict):
            for node, _ in place.parsed.nodes.get(kind, ()):
                for value in _quantizing(node):
                    if not is_literal(value, "False") and not is_literal(value, "None"):
                        return True
    return re.search(r"\[\s*[\"']quantization_config[\"']\s*\]\s*=", script.source.text) is not None


def _quantizing(node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    if isinstance(node, cst.Call):
        yield from (a.value for a in node.args if a.keyword is not None and a.keyword.value in _QUANTIZED)
    elif isinstance(node, cst.Dict):
        for element in node.elements:
            if isinstance(element, cst.DictElement) and string_value(element.key) in _QUANTIZED:
                yield element.value


def _arguments(script: Script) -> Iterator[Enabling]:
    trainers = hf_trainers(script)
    if not trainers:
        return
    for call in _constructions(script, _ARGUMENTS):
        asked = next((a for name in _FLAGS if (a := call.keyword(name))), None)
        if asked is not None and not is_literal(asked.value, "False") and not is_literal(asked.value, "None"):
            models, name = _trainer_model(script, trainers)
            if models:
                yield Enabling(How.ARGUMENTS, call, call.node, models, name)


def _flags(script: Script) -> Iterator[Enabling]:
    """`if training_args.gradient_checkpointing:` around other things: the command line asks, the Trainer does it."""
    flag = re.compile(r"\bif\s+(?:\w+\.)*(?:gradient|activation)_checkpointing\b[^\n]*:")
    off = re.compile(r"\.(?:gradient|activation)_checkpointing\s*=\s*False")
    trainers = hf_trainers(script)
    if trainers and flag.search(script.source.text) and not off.search(script.source.text):
        models, name = _trainer_model(script, trainers)
        if models:
            yield Enabling(How.FLAG, trainers[0], trainers[0].node, models, name)


def _trainer_model(script: Script, trainers: list[Call]) -> tuple[tuple[Model, ...], str | None]:
    models: list[Model] = []
    names: set[str] = set()
    for call in trainers:
        model = call.keyword("model") or (call.positional[0] if call.positional else None)
        if model is None or call.unpacks_mapping:
            return (), None
        these = decoders(script, models_of(script, model.value, call.scope, call.place))
        if not these:
            return (), None
        models += these
        names.add(".".join(dotted(model.value)))
    return tuple(models), names.pop() if len(names) == 1 else None


def hf_trainers(script: Script) -> list[Call]:
    """Constructions of transformers' Trainer, or of a class in this file that derives from it."""
    return list(_constructions(script, _TRAINERS))


def _constructions(script: Script, classes: tuple[str, ...]) -> Iterator[Call]:
    """Calls of these classes, and of classes in this file that derive from them."""
    yield from script.meaning(lambda name: _public(name) in classes)
    yield from script.named(*sorted(_derived(script, classes)))


def _derived(script: Script, classes: tuple[str, ...]) -> set[str]:
    heads = [(match[1], re.findall(r"[\w.]+", match[2])) for match in _CLASS.finditer(script.source.text)]
    known = {name for name, meant in script.source.module.items() if any(_public(m) in classes for m in meant)}
    imported = known | set(classes)
    for _ in heads:
        more = {name for name, bases in heads if not imported.isdisjoint(bases)} - imported
        if not more:
            break
        imported |= more
    return imported - known - set(classes)


def _public(name: str) -> str:
    """`transformers.trainer.Trainer` as `transformers.Trainer`."""
    parts = name.split(".")
    return f"{parts[0]}.{parts[-1]}"


def _is_foreign_trainer(name: str) -> bool:
    return name.startswith(("trl.", "unsloth.")) and name.endswith("Trainer")


def trained(script: Script) -> Trained:
    if any(True for _ in script.meaning(_is_foreign_trainer)):
        return Trained.ELSEWHERE  # TRL passes use_cache=False in its own forward calls
    if hf_trainers(script):
        return Trained.BY_TRAINER
    loop = any(True for _ in script.named("backward")) or "def training_step(" in script.source.text
    return Trained.BY_LOOP if loop else Trained.ELSEWHERE


def training_calls(script: Script, model: str | None, models: tuple[Model, ...]) -> list[Call]:
    """The calls `model(…)` that train one of these models, under whatever name a wrapper gave it."""
    wanted = {id(m.call.node) for m in models}
    known: dict[tuple[str, int], bool] = {}
    found: list[Call] = []
    held_by = {name.rpartition(".")[2] for name in script.bound | {model or ""}}
    for call in script.named(*sorted(held_by)):
        name = ".".join(dotted(call.node.func))
        if not name or (name != model and not script.assigned(name)):
            continue
        key = name, id(call.scope)
        if key not in known:
            held = models_of(script, call.node.func, call.scope, call.place) or []
            known[key] = not wanted.isdisjoint(id(m.call.node) for m in held)
        if known[key] and _leads_to_gradients(script, call) and not surely_without_gradients(call.place, call.node):
            found.append(call)
    return found


def _leads_to_gradients(script: Script, call: Call) -> bool:
    """Whether the function around a forward call runs backward, or hands on what may be a loss."""
    function = call.scope.node if call.scope else None
    if any((c.scope.node if c.scope else None) is function for c in script.named("backward")):
        return True
    if isinstance(function, cst.Lambda):
        return True
    inside = walk_here(function.body) if isinstance(function, cst.FunctionDef) else ()
    return any(isinstance(node, cst.Return) and node.value is not None for node in inside)


def only_decoders(script: Script) -> tuple[Model, ...]:
    """The models of the file where each of them is a decoder."""
    return decoders(script, all_models(script))
