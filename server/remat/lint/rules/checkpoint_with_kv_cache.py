"""A Hugging Face decoder trained with checkpointing while its KV cache is on.

## Why
Where the model's own checkpointing is on (`gradient_checkpointing_enable`, PEFT's `prepare_model_for_kbit_training`,
`TrainingArguments(gradient_checkpointing=True)`), transformers drops the cache in training by itself and logs one line
per run, "`use_cache=True` is incompatible with gradient checkpointing". Neither memory nor gradients are lost: such a
finding is information. The Trainer sets `use_cache=False` itself from transformers 5 on.

Where the layers are checkpointed from outside (`apply_activation_checkpointing`, `checkpoint_wrapper`, FSDP's own
checkpointing, `layer.forward = partial(checkpoint, …)`), the model does not know of it and the recomputation writes the
cache a second time. The reentrant variant then gives wrong gradients without an error; the other one raises a
CheckpointError, or a RuntimeError about sizes with a padding mask. It is a warning for every version of transformers
since 4.36.

A `model.config.use_cache = False` that the model never reads is a warning too: multimodal models keep the setting in
`config.get_text_config()`, T5 of transformers 5.24 in `model.decoder.config`. Which do depends on class and version.

## What is not reported
Encoders, classifiers and diffusion models (no cache); models loaded by `AutoModel` or built in another file; files
without the training loop or the Trainer; trainers of TRL (they pass `use_cache=False`); a file, or an imported function
given the model, that turns the cache off in any form, also by the flag that turns checkpointing on; PEFT's preparation
where no model is quantized (it enables nothing then). `generation_config.use_cache`, `generate(use_cache=…)` and calls
under `no_grad` do not count: training does not look there.

## Fix safety
In a training loop the fix passes `use_cache=False` to the one forward call in sight, which works for every version. It
is safe, except for models with remote code, whose forward may not take the argument, and where the file reads the
cache. Elsewhere the fix writes `config.use_cache = False`, where that is known to work. `save_pretrained` writes this
to config.json, so it is offered for review. There is no fix through a call with `**`: it may hold the argument
already.

## References
- https://huggingface.co/docs/transformers/main/en/grad_checkpointing
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from remat.finding import Finding, Fix, Severity
from remat.lint.code.syntax import dotted, is_literal
from remat.lint.kv_cache.cache_off_elsewhere import turned_off_elsewhere
from remat.lint.kv_cache.cache_settings import CacheSetting, Said, Where, cache_settings, deciding_flag, guarding_flag
from remat.lint.kv_cache.cache_wording import dropped, taken_care_of, whatever_the_flag, without_effect, written_twice
from remat.lint.kv_cache.decoder_checkpointing import (
    KBIT,
    Enabling,
    How,
    Trained,
    assigned_name,
    checkpointing_asked,
    enablings,
    hf_trainers,
    trained,
    training_calls,
)
from remat.lint.kv_cache.hugging_face import living_config, may_build_decoder
from remat.lint.kv_cache.outside_checkpointing import outside_checkpointings
from remat.lint.kv_cache.training_script import read_script
from remat.lint.kv_cache.turning_cache_off import in_the_call, in_the_load, on_the_config, where_it_lives
from remat.lint.rule import Bad, Context, Good, Option, Rule

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from remat.lint.code.source import Call, Source
    from remat.lint.kv_cache.model_origins import Model
    from remat.lint.kv_cache.outside_checkpointing import Outside
    from remat.lint.kv_cache.training_script import Script

_ENABLES = ("checkpointing_enable", "_checkpointing", "prepare_model_for_", "checkpoint_wrapper", ".forward =")
_TRAINS = ("Trainer", ".backward(", "def training_step(")


@dataclass(frozen=True, slots=True)
class _File:
    """What one check has read, handed on as one."""

    source: Source
    script: Script
    settings: tuple[CacheSetting, ...]
    context: Context
    report: str
    trained: Trained


def check(source: Source, context: Context) -> Iterator[Finding]:
    if not (source.complete and worth_a_look(source.words)):
        return
    script = read_script(source)
    by = trained(script) if script.whole else Trained.ELSEWHERE
    if by is Trained.ELSEWHERE:
        return
    report = context.settings.option(RULE.name, "report", "default")
    inside = list(enablings(script))
    file = _File(source, script, tuple(cache_settings(script)), context, report, by)
    if inside:
        yield from _inside(file, inside)
    else:
        yield from filter(None, (_outside(file, use) for use in outside_checkpointings(script)))


def worth_a_look(words: Container[str]) -> bool:
    """Whether a text can hold all that a finding needs: checkpointing, training and a decoder."""
    return any(w in words for w in _ENABLES) and any(w in words for w in _TRAINS) and may_build_decoder(words)


def _inside(file: _File, inside: list[Enabling]) -> Iterator[Finding]:
    """At most one finding per model, at the first thing that turns its checkpointing on."""
    seen: set[frozenset[int]] = set()
    for enabling in inside:
        models = frozenset(id(m.call.node) for m in enabling.models)
        if models not in seen and (finding := _judged(file, enabling)) is not None:
            seen.add(models)
            yield finding


def _judged(file: _File, enabling: Enabling) -> Finding | None:
    models, versions = enabling.models, file.context.versions
    off = [s for s in file.settings if s.said is not Said.ON]
    dead = [s for s in off if _is_dead(file, s, models)]
    whatever = bool(off) and _ignores_flag(enabling) and all(deciding_flag(s) is not None for s in off)
    if off and len(dead) == len(off):
        fix = where_it_lives(file.source, dead, models, versions)
        return _found(
            file, enabling.call, Severity.WARNING, without_effect(file.source, models, dead[0], versions), fix
        )
    by_trainer, cared_for = file.trained is Trained.BY_TRAINER, _cared_for(file, models)
    if (off and not whatever) or file.report == "harm" or (cared_for and file.report != "always"):
        return None
    calls = [] if by_trainer else training_calls(file.script, enabling.model, models)
    untrained = not by_trainer and not calls
    if untrained or turned_off_elsewhere(file.source.text, enabling.model, file.context.project):
        return None
    if whatever:
        return _found(file, enabling.call, Severity.INFO, whatever_the_flag(file.source, off[0], versions), None)
    fix = _fix(file, enabling.call, enabling.model, models, calls, enabling.how)
    message = taken_care_of(enabling, versions) if cared_for else dropped(enabling, versions)
    return _found(file, enabling.call, Severity.INFO, message, fix)


def _outside(file: _File, use: Outside) -> Finding | None:
    models, versions = use.models, file.context.versions
    off = [s for s in file.settings if s.said is not Said.ON]
    dead = [s for s in off if _is_dead(file, s, models)]
    by_trainer = file.trained is Trained.BY_TRAINER
    tuples = versions.at_least("transformers", "4.36") is False  # the cache was no object that layers write to
    if tuples or len(dead) != len(off) or _cared_for(file, models):
        return None
    calls = [] if by_trainer else training_calls(file.script, use.model, models)
    untrained = not by_trainer and not calls
    if untrained or turned_off_elsewhere(file.source.text, use.model, file.context.project):
        return None
    message = written_twice(models, versions, reentrant=use.reentrant)
    if not dead:
        fix = _fix(file, use.call, use.model, models, calls, None)
        return _found(file, use.call, Severity.WARNING, message, fix)
    message = f"{message}; {without_effect(file.source, models, dead[0], versions)}"
    return _found(file, use.call, Severity.WARNING, message, where_it_lives(file.source, dead, models, versions))


def _cared_for(file: _File, models: tuple[Model, ...]) -> bool:
    """Whether a Trainer may turn the cache off: from version 5 on it writes `model.config.use_cache = False` itself."""
    if file.trained is not Trained.BY_TRAINER or file.context.versions.at_least("transformers", "5") is False:
        return False
    return any(living_config(m.cls, file.context.versions) is None for m in models)


def _found(file: _File, call: Call, severity: Severity, message: str, fix: Fix | None) -> Finding | None:
    span = file.source.span(call.place, call.node.func)
    return Finding(RULE.name, span, message, severity, fix) if span is not None else None


def _is_dead(file: _File, setting: CacheSetting, models: tuple[Model, ...]) -> bool:
    """Whether it is `model.config.use_cache = …`, written for classes that never read it there."""
    target = setting.node.targets[0].target if isinstance(setting.node, cst.Assign) else None
    parts = dotted(target) if target is not None else []
    on_the_model = setting.where is Where.CONFIG and len(parts) > 2 and parts[-2] == "config" and parts[0] != "config"
    inner = {"language_model", "text_model", "decoder", "llm"} & set(parts)
    return on_the_model and not inner and all(living_config(m.cls, file.context.versions) for m in models)


def _ignores_flag(enabling: Enabling) -> bool:
    """PEFT's preparation by its own default, whatever the flag of the script says."""
    if enabling.how is not How.KBIT or guarding_flag(enabling.call.place, enabling.call.node):
        return False
    asked = checkpointing_asked(enabling.call)
    return asked is None or is_literal(asked.value, "True")


def _fix(
    file: _File, call: Call, model: str | None, models: tuple[Model, ...], calls: list[Call], how: How | None
) -> Fix | None:
    if file.trained is Trained.BY_LOOP and (fix := in_the_call(file.source, calls, models)):
        return fix
    versions = file.context.versions
    if fix := in_the_load(file.source, models, versions):
        return fix
    if how in {How.METHOD, How.KBIT}:
        return on_the_config(file.source, call, model, models, versions, before=False)
    trainers = hf_trainers(file.script)
    if len(trainers) == 1:
        return on_the_config(file.source, trainers[0], model, models, versions, before=True)
    built = models[0].call
    name = assigned_name(file.script, built) if len(models) == 1 and not trainers else None
    return on_the_config(file.source, built, name, models, versions, before=False)


EXAMPLES = (
    Bad(
        """
        from transformers import LlamaForCausalLM
        model = LlamaForCausalLM.from_pretrained(name)
        model.train()
        if args.gradient_checkpointing:
            «model.gradient_checkpointing_enable»()
        for batch in loader:
            loss = model(input_ids=batch.ids, labels=batch.labels).loss
            loss.backward()
        """,
        fixed="""
        from transformers import LlamaForCausalLM
        model = LlamaForCausalLM.from_pretrained(name)
        model.train()
        if args.gradient_checkpointing:
            model.gradient_checkpointing_enable()
        for batch in loader:
            loss = model(input_ids=batch.ids, labels=batch.labels, use_cache=False).loss
            loss.backward()
        """,
        safe=True,
        says=("drops the cache in training", "nothing else is lost"),
    ),
    Bad(
        """
        from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing
        from transformers import AutoModelForCausalLM
        from transformers.models.llama.modeling_llama import LlamaDecoderLayer
        model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3.2-1B")
        «apply_activation_checkpointing»(model, check_fn=lambda m: isinstance(m, LlamaDecoderLayer))
        for batch in loader:
            model(input_ids=batch["ids"], labels=batch["ids"]).loss.backward()
        """,
        fixed="""
        from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing
        from transformers import AutoModelForCausalLM
        from transformers.models.llama.modeling_llama import LlamaDecoderLayer
        model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3.2-1B")
        apply_activation_checkpointing(model, check_fn=lambda m: isinstance(m, LlamaDecoderLayer))
        for batch in loader:
            model(input_ids=batch["ids"], labels=batch["ids"], use_cache=False).loss.backward()
        """,
        safe=True,
        severity=Severity.WARNING,
        says=("checkpointed from outside", "CheckpointError"),
    ),
    Bad(
        """
        import functools
        import torch
        from torch.utils.checkpoint import checkpoint
        from transformers import AutoModelForCausalLM
        model = AutoModelForCausalLM.from_pretrained(name)
        for layer in model.model.layers:
            layer.forward = «functools.partial»(checkpoint, layer.forward, use_reentrant=True)
        for batch in loader:
            model(**batch).loss.backward()
        """,
        fixed="""
        import functools
        import torch
        from torch.utils.checkpoint import checkpoint
        from transformers import AutoModelForCausalLM
        model = AutoModelForCausalLM.from_pretrained(name)
        model.config.use_cache = False
        for layer in model.model.layers:
            layer.forward = functools.partial(checkpoint, layer.forward, use_reentrant=True)
        for batch in loader:
            model(**batch).loss.backward()
        """,
        severity=Severity.WARNING,
        says=("the gradients are wrong, without an error",),
    ),
    Bad(
        """
        from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
        model = AutoModelForCausalLM.from_pretrained(name)
        args = «TrainingArguments»("out", gradient_checkpointing=True)
        trainer = Trainer(model=model, args=args, train_dataset=data)
        trainer.train()
        """,
        fixed="""
        from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
        model = AutoModelForCausalLM.from_pretrained(name)
        args = TrainingArguments("out", gradient_checkpointing=True)
        model.config.use_cache = False
        trainer = Trainer(model=model, args=args, train_dataset=data)
        trainer.train()
        """,
        versions="transformers=4.57.6",
        says=("transformers 4.57.6 drops the cache",),
    ),
    Bad(
        """
        from peft import get_peft_model, prepare_model_for_kbit_training
        from transformers import AutoModelForCausalLM, Trainer
        model = AutoModelForCausalLM.from_pretrained(name, quantization_config=four_bits)
        model = «prepare_model_for_kbit_training»(model)
        model = get_peft_model(model, lora)
        Trainer(model, args).train()
        """,
        fixed="""
        from peft import get_peft_model, prepare_model_for_kbit_training
        from transformers import AutoModelForCausalLM, Trainer
        model = AutoModelForCausalLM.from_pretrained(name, quantization_config=four_bits)
        model = prepare_model_for_kbit_training(model)
        model.config.use_cache = False
        model = get_peft_model(model, lora)
        Trainer(model, args).train()
        """,
        versions="transformers=4.57.6",
    ),
    Bad(
        """
        from peft import prepare_model_for_kbit_training
        from transformers import AutoModelForCausalLM, Trainer
        model = AutoModelForCausalLM.from_pretrained(name, load_in_8bit=True)
        model = «prepare_model_for_kbit_training»(model)
        if args.gradient_checkpointing:
            model.config.use_cache = False
        else:
            model.config.use_cache = True
        Trainer(model, args).train()
        """,
        versions="transformers=4.57.6",
        says=("whatever `args.gradient_checkpointing` says",),
    ),
    Bad(
        """
        from transformers import LlavaForConditionalGeneration
        model = LlavaForConditionalGeneration.from_pretrained(name)
        «model.gradient_checkpointing_enable»()
        model.config.use_cache = False
        for batch in loader:
            model(**batch).loss.backward()
        """,
        fixed="""
        from transformers import LlavaForConditionalGeneration
        model = LlavaForConditionalGeneration.from_pretrained(name)
        model.gradient_checkpointing_enable()
        model.config.get_text_config().use_cache = False
        for batch in loader:
            model(**batch).loss.backward()
        """,
        versions="transformers=4.57.6",
        severity=Severity.WARNING,
        says=("has no effect on LlavaForConditionalGeneration", "(line 4)"),
    ),
    Bad(
        """
        from transformers import T5ForConditionalGeneration
        model = T5ForConditionalGeneration.from_pretrained("t5-small")
        «model.activation_checkpointing_enable»()
        model.config.use_cache = False
        for batch in loader:
            model(**batch).loss.backward()
        """,
        fixed="""
        from transformers import T5ForConditionalGeneration
        model = T5ForConditionalGeneration.from_pretrained("t5-small")
        model.activation_checkpointing_enable()
        model.decoder.config.use_cache = False
        for batch in loader:
            model(**batch).loss.backward()
        """,
        versions="transformers=5.24.0",
        severity=Severity.WARNING,
    ),
    Bad(
        """
        from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
        model = AutoModelForCausalLM.from_pretrained(name)
        Trainer(model, «TrainingArguments»(activation_checkpointing=True)).train()
        """,
        fixed="""
        from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
        model = AutoModelForCausalLM.from_pretrained(name)
        model.config.use_cache = False
        Trainer(model, TrainingArguments(activation_checkpointing=True)).train()
        """,
        options={"report": "always"},
        versions="transformers=5.24.0",
        says=("the Trainer of transformers 5 and later turns it off",),
    ),
    Good(
        """
        from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
        model = AutoModelForCausalLM.from_pretrained(name)
        Trainer(model, TrainingArguments("out", gradient_checkpointing=True)).train()
        """,
        because="the Trainer of transformers 5 writes config.use_cache = False itself",
        versions="transformers=5.24.0",
    ),
    Good(
        """
        from transformers import AutoModelForCausalLM
        model = AutoModelForCausalLM.from_pretrained(name)
        model.gradient_checkpointing_enable()
        for batch in loader:
            model(**batch).loss.backward()
        """,
        because="it costs one line of the log, and only harm is to be reported",
        options={"report": "harm"},
    ),
    Good(
        """
        from transformers import AutoModelForCausalLM, Trainer
        model = AutoModelForCausalLM.from_pretrained(
            name, use_cache=False if training_args.gradient_checkpointing else True
        )
        if training_args.gradient_checkpointing:
            model.gradient_checkpointing_enable()
        Trainer(model, training_args).train()
        """,
        because="the flag that turns checkpointing on turns the cache off",
        versions="transformers=4.57.6",
    ),
    Good(
        """
        from transformers import BertForMaskedLM
        model = BertForMaskedLM.from_pretrained(name)
        model.gradient_checkpointing_enable()
        for batch in loader:
            model(**batch).loss.backward()
        """,
        because="an encoder has no KV cache",
    ),
    Good(
        """
        from transformers import AutoModel
        model = AutoModel.from_pretrained(name, trust_remote_code=True)
        model.gradient_checkpointing_enable()
        for batch in loader:
            model(**batch).loss.backward()
        """,
        because="AutoModel says nothing about the class",
    ),
    Good(
        """
        from peft import prepare_model_for_kbit_training
        from transformers import AutoModelForCausalLM, Trainer
        model = AutoModelForCausalLM.from_pretrained(name)
        model = prepare_model_for_kbit_training(model)
        Trainer(model, args).train()
        """,
        because="nothing is quantized, so the preparation turns no checkpointing on",
        versions="transformers=4.57.6",
    ),
    Good(
        """
        from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing
        from transformers import AutoModelForCausalLM
        from transformers.models.llama.modeling_llama import LlamaMLP
        model = AutoModelForCausalLM.from_pretrained(name)
        apply_activation_checkpointing(model, check_fn=lambda m: isinstance(m, LlamaMLP))
        for batch in loader:
            model(**batch).loss.backward()
        """,
        because="an MLP does not write the cache",
    ),
    Good(
        """
        from transformers import AutoModelForCausalLM
        from setup import quiet
        model = AutoModelForCausalLM.from_pretrained(name)
        quiet(model)
        model.gradient_checkpointing_enable()
        for batch in loader:
            model(**batch).loss.backward()
        """,
        because="the imported function is given the model, and its file turns the cache off",
        beside={"setup.py": "def quiet(model):\n    model.config.use_cache = False\n"},
    ),
)

RULE = Rule(
    __name__,
    __doc__,
    Severity.INFO,
    check,
    words=("checkpoint", "prepare_model_for_"),  # `use_cache`, which must be absent, is looked for in the whole text
    targets=KBIT,
    options=(
        Option(
            "report",
            ("default", "harm", "always"),
            "`harm`: wrong gradients, errors, settings without effect; `always`: also where the Trainer takes care",
        ),
    ),
    examples=EXAMPLES,
)
