"""Where a file wraps the layers of a Hugging Face decoder in checkpoints of its own, unknown to the model."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from remat.lint.checkpointing import APPLY, CHECKPOINTS, WRAP
from remat.lint.code.definitions import definitions
from remat.lint.code.loop_targets import iterated
from remat.lint.code.syntax import dotted, is_literal, string_value, targets, walk
from remat.lint.kv_cache.decoder_checkpointing import decoders, only_decoders
from remat.lint.kv_cache.model_origins import models_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remat.lint.code.names import Scope
    from remat.lint.code.source import Call, Place
    from remat.lint.kv_cache.model_origins import Model
    from remat.lint.kv_cache.training_script import Script

_PLUGINS = frozenset({"FullyShardedDataParallelPlugin", "TrainingArguments", "Seq2SeqTrainingArguments"})
_BLOCK = re.compile(r"(?:DecoderLayer|Block|Attention)$")
_LAYERS = frozenset({"layers", "h", "block", "blocks"})
_NOT_TEXT = re.compile(r"vis|image|audio|encoder")
_REENTRANT = re.compile(r"\bCheckpointImpl\.REENTRANT\b|use_reentrant\s*=\s*True")


@dataclass(frozen=True, slots=True)
class Outside:
    """`call`: what wraps. `reentrant`: whether the file names that variant, which gives wrong gradients silently."""

    call: Call
    models: tuple[Model, ...]
    model: str | None
    reentrant: bool


def outside_checkpointings(script: Script) -> Iterator[Outside]:
    reentrant = _REENTRANT.search(script.source.text) is not None
    for call in _candidates(script):
        found = _wrapped(script, call)
        if found is not None and found[0]:
            yield Outside(call, *found, reentrant)


def _candidates(script: Script) -> Iterator[Call]:
    names = {APPLY, WRAP, *CHECKPOINTS}
    yield from script.meaning(lambda name: name in names)
    yield from script.named("partial", *sorted(_PLUGINS))


Wrapped = tuple[tuple["Model", ...], "str | None"]


def _wrapped(script: Script, call: Call) -> Wrapped | None:
    """The decoders whose layers this call wraps, and the variable that holds them."""
    if APPLY in call.names and call.positional and not call.unpacks_mapping:
        model = call.positional[0].value
        if _whole_blocks(script, call):
            return decoders(script, models_of(script, model, call.scope, call.place)), ".".join(dotted(model))
    elif WRAP in call.names and call.positional:
        return _of_layer(script, call.positional[0].value, call.scope, call.place)
    elif not call.names.isdisjoint(CHECKPOINTS) or _partial_of_checkpoint(script, call):
        if (layer := _replaced_forward(call)) is not None:
            return _of_layer(script, layer, call.scope, call.place)
    elif dotted(call.node.func)[-1:] and dotted(call.node.func)[-1] in _PLUGINS and _sharding_checkpoints(script, call):
        return only_decoders(script), None
    return None


def _partial_of_checkpoint(script: Script, call: Call) -> bool:
    made = script.source.meanings(call.node, call.scope, call.place)
    return any(name.rpartition(" ")[2] in CHECKPOINTS for name in made)


def _whole_blocks(script: Script, call: Call) -> bool:
    """Whether what is wrapped writes the cache. Not where a policy can't be read, nor where only MLPs are wrapped."""
    policy = call.keyword("check_fn") or call.keyword("auto_wrap_policy")
    if policy is None:
        return len(call.positional) < 3
    chosen = [policy.value]
    if isinstance(policy.value, cst.Name):
        chosen = [at.node for at in definitions(script.source, policy.value, call.scope, call.place)]  # type: ignore[misc]
    names = [dotted(kind)[-1] for one in chosen for kind in _classes_tested(one) if dotted(kind)]
    return bool(names) and any(_BLOCK.search(name) for name in names)


def _classes_tested(policy: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    for node in walk(policy):
        if isinstance(node, cst.Call) and dotted(node.func) == ["isinstance"] and len(node.args) == 2:
            yield from _elements(node.args[1].value)
        elif isinstance(node, cst.Arg) and node.keyword is not None and node.keyword.value == "transformer_layer_cls":
            yield from _elements(node.value)


def _elements(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    return [e.value for e in node.elements] if isinstance(node, cst.Tuple | cst.Set | cst.List) else [node]


def _replaced_forward(call: Call) -> cst.BaseExpression | None:
    """`layer` where the call stands in `layer.forward = …`."""
    for above in call.place.parsed.ancestors(call.node):
        if isinstance(above, cst.Assign):
            target = above.targets[0].target
            return target.value if isinstance(target, cst.Attribute) and target.attr.value == "forward" else None
        if isinstance(above, cst.FunctionDef):
            return None
    return None


def _of_layer(script: Script, layer: cst.BaseExpression, scope: Scope | None, place: Place) -> Wrapped | None:
    """The model whose list of layers holds `layer`: `model.model.layers[i]`, or a name that a loop takes from it."""
    container = layer.value if isinstance(layer, cst.Subscript) else _iterated(layer, place)
    parts = dotted(container) if container is not None else []
    if len(parts) < 2 or parts[-1] not in _LAYERS or any(map(_NOT_TEXT.search, parts)):
        return None
    root = parts[: 2 if parts[0] == "self" else 1]
    held = cst.Name(root[0]) if len(root) == 1 else cst.Attribute(cst.Name("self"), cst.Name(root[1]))
    return decoders(script, models_of(script, held, scope, place)), ".".join(root)


def _iterated(layer: cst.BaseExpression, place: Place) -> cst.BaseExpression | None:
    if not isinstance(layer, cst.Name):
        return None
    for above in place.parsed.ancestors(layer):
        loop: cst.For | cst.CompFor | None = above if isinstance(above, cst.For) else None
        if isinstance(above, cst.ListComp | cst.GeneratorExp):
            loop = above.for_in
        if loop is not None and layer.value in targets(loop.target):
            return iterated(loop.target, loop.iter, layer.value)
    return None


def _sharding_checkpoints(script: Script, call: Call) -> bool:
    """FSDP's own activation checkpointing: Accelerate's plugin, or `fsdp_config={"activation_checkpointing": True}`."""
    if dotted(call.node.func)[-1] == "FullyShardedDataParallelPlugin":
        asked = call.keyword("activation_checkpointing")
        return asked is not None and is_literal(asked.value, "True")
    config = call.keyword("fsdp_config")
    if config is None:
        return False
    values: list[cst.CSTNode] = [config.value]
    if isinstance(config.value, cst.Name):
        values = [at.node for at in definitions(script.source, config.value, call.scope, call.place)]
    return any(
        isinstance(element, cst.DictElement)
        and string_value(element.key) in {"activation_checkpointing", "fsdp_activation_checkpointing"}
        and is_literal(element.value, "True")
        for value in values
        for element in (value.elements if isinstance(value, cst.Dict) else ())
    )
