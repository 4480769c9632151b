"""Checkpointing that the probe chose, written beside a model of transformers with the library's own switch."""

from __future__ import annotations

import pytest

from remat.finding import apply_edits
from remat.lint.check import check
from remat.lint.project import Project, summarise
from remat.lint.rule import Context
from remat.plan.plan import Blocks, ByHand, Place, Plan, Written
from remat.plan.write import write
from remat.versions import Versions

LOOP = """\
import torch
from transformers import AutoModelForSequenceClassification

model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased").to("cuda")
model.train()
for batch in batches:
    model(**batch).loss.backward()
"""
TRAINER = """\
from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments

model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased")
arguments = TrainingArguments("out", bf16=True)
Trainer(model, arguments, train_dataset=data).train()
"""
ALL = Plan("all", (Blocks("bert.encoder.layer.*", 12, 12),))
EVERY = Plan("every-2", (Blocks("bert.encoder.layer.*", 6, 12),))
OLD = "gradient_checkpointing"


def outcome(text: str, plan: Plan = ALL, versions: str = "", line: int | None = None, around: str = "") -> object:
    here = line or text[: text.index("from_pretrained")].count("\n") + 1
    project = Project((summarise("beside.py", around),))
    return write(text, Place(None, here), plan, Context(Versions.parse(versions), project=project))


def written(text: str, plan: Plan = ALL, versions: str = "") -> str:
    found = outcome(text, plan, versions)
    assert isinstance(found, Written), found
    result = apply_edits(text, found.edits)
    compile(result, "train.py", "exec")
    assert check(result, Context(Versions.parse(versions))) == []
    return result


def refused(text: str, plan: Plan = ALL, versions: str = "", around: str = "") -> ByHand:
    found = outcome(text, plan, versions, around=around)
    assert isinstance(found, ByHand), found
    return found


@pytest.mark.parametrize(("versions", "stem"), [("", OLD), ("transformers=5.24.0", "activation_checkpointing")])
def test_in_a_loop_of_one_s_own_the_line_after_the_model_switches_it_on(versions: str, stem: str) -> None:
    line = f'model.{stem}_enable({stem}_kwargs={{"use_reentrant": False}})'
    assert written(LOOP, versions=versions).splitlines()[4] == line


@pytest.mark.parametrize(("versions", "stem"), [("", OLD), ("transformers=5.24.0", "activation_checkpointing")])
def test_with_a_trainer_its_arguments_switch_it_on(versions: str, stem: str) -> None:
    said = f'TrainingArguments("out", bf16=True, {stem}=True, {stem}_kwargs={{"use_reentrant": False}})'
    assert said in written(TRAINER, versions=versions)


def test_arguments_one_a_line_stay_one_a_line() -> None:
    text = TRAINER.replace('("out", bf16=True)', '(\n    "out",\n    gradient_checkpointing=False,  # slow\n)')
    assert 'gradient_checkpointing=True,  # slow\n    gradient_checkpointing_kwargs={"use_reentrant": False},\n)' in (
        written(text)
    )


def test_quotes_are_those_of_the_file() -> None:
    assert "kwargs={'use_reentrant': False}" in written(LOOP.replace('"', "'"))


def test_a_decoder_in_a_loop_of_one_s_own_has_its_cache_turned_off_too() -> None:
    result = written(LOOP.replace("AutoModelForSequenceClassification", "AutoModelForCausalLM"))
    assert "model.config.use_cache = False\n" in result


def test_a_model_that_stays_in_eval_mode_is_a_note() -> None:
    found = outcome(LOOP.replace("model.train()\n", ""))
    assert isinstance(found, Written)
    assert "eval mode, where nothing is recomputed: call model.train()" in found.notes[0]
    found = outcome(LOOP)
    assert isinstance(found, Written)
    assert found.notes == ()


def test_every_nth_layer_is_counted_by_transformers_where_it_can() -> None:
    said = 'activation_checkpointing_enable(every_n_layers=2, activation_checkpointing_kwargs={"use_reentrant": False})'
    assert said in written(LOOP, EVERY, "transformers=5.24.0")
    assert "before 5.23 checkpoints every layer or none" in refused(LOOP, EVERY, "transformers=4.57.0").why
    assert "not these" in refused(LOOP, Plan("first-3", ALL.blocks), "transformers=5.24.0").why


@pytest.mark.parametrize("text", [LOOP, TRAINER])
def test_a_selective_plan_hands_its_policy_over_beside_the_model(text: str) -> None:
    result = written(text, Plan("selective", ALL.blocks))
    said = 'enable(gradient_checkpointing_kwargs={"use_reentrant": False, "context_fn": selective_contexts})'
    assert f"model.gradient_checkpointing_{said}" in result
    assert result.index("def selective_contexts") < result.index("model = ")
    assert "gradient_checkpointing=True" not in result


NONE = Plan("none", ALL.blocks)
SWITCHED = LOOP.replace("model.train()\n", "model.gradient_checkpointing_enable()  # slow\nmodel.train()\n")


def test_a_switch_that_the_code_turns_is_turned_otherwise_where_it_stands() -> None:
    settings = 'every_n_layers=2, activation_checkpointing_kwargs={"use_reentrant": False}'
    line = f"model.activation_checkpointing_enable({settings})  # slow"
    assert written(SWITCHED, EVERY, "transformers=5.24.0").splitlines()[4] == line
    result = written(SWITCHED, Plan("selective", ALL.blocks))
    assert result.count("gradient_checkpointing_enable(") == 1
    assert '"context_fn": selective_contexts})  # slow' in result


def test_a_switch_that_the_code_turns_is_taken_out() -> None:
    assert written(SWITCHED, NONE) == LOOP
    trainer = TRAINER.replace("bf16=True", "bf16=True, gradient_checkpointing=True")
    assert written(trainer, NONE) == trainer.replace("gradient_checkpointing=True", "gradient_checkpointing=False")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (LOOP, "Nothing in this file switches checkpointing on"),
        (TRAINER.replace("bf16=True", "gradient_checkpointing=options.save"), "take their switch from elsewhere"),
        (SWITCHED.replace("model.grad", "if on: model.grad"), "under a condition"),
        (
            TRAINER.replace("bf16=True", "gradient_checkpointing=True").replace(
                "arguments =", "model.gradient_checkpointing_enable()\narguments ="
            ),
            "so does another",
        ),
    ],
)
def test_a_switch_that_is_turned_elsewhere_is_named(text: str, why: str) -> None:
    assert why in refused(text, NONE).why


def test_a_trainer_that_switches_it_on_would_do_so_after_another_switch() -> None:
    trainer = TRAINER.replace("bf16=True", "gradient_checkpointing=True")
    assert "would do so after this" in refused(trainer, Plan("selective", ALL.blocks)).why


def test_an_encoder_inside_of_a_class_is_switched_on_where_it_is_made() -> None:
    text = (
        "from torch import nn\nfrom transformers import AutoModel\n\n\nclass Tagger(nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n"
        '        self.encoder = AutoModel.from_pretrained("bert-base-uncased")\n'
        "        self.head = nn.Linear(768, 9)\n\n"
        "    def forward(self, ids):\n        return self.head(self.encoder(ids).last_hidden_state)\n"
    )
    found = write(text, Place("Tagger"), Plan("all", (Blocks("encoder.encoder.layer.*", 12, 12),)), Context())
    assert isinstance(found, Written)
    line = '        self.encoder.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})'
    assert apply_edits(text, found.edits).splitlines()[8] == line


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (
            "model.train()",
            "if on:\n    model.gradient_checkpointing_enable()",
            "Line 6 switches checkpointing on already, under a condition",
        ),
        ("model.train()", "other.gradient_checkpointing_enable()", "for another model"),
        ("model.train()", "model.gradient_checkpointing_enable()\n" * 2, "so does another"),
        ("model = ", "", "not kept in a variable"),
        (
            "model.train()",
            "from peft import prepare_model_for_kbit_training\nprepare_model_for_kbit_training(model)",
            "kbit",
        ),
        (".to(", ".frozen(", "not kept in a variable"),
    ],
)
def test_where_it_would_be_wrong_it_is_said_what_to_write(before: str, after: str, why: str) -> None:
    found = refused(LOOP.replace(before, after))
    assert why in found.why
    assert 'gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})' in found.code


@pytest.mark.parametrize(
    ("arguments", "why"),
    [("**options", "unpacked"), ("gradient_checkpointing=on", "already"), ("fsdp='full_shard'", "FSDP")],
)
def test_arguments_that_say_it_in_their_own_way_are_left_alone(arguments: str, why: str) -> None:
    assert why in refused(TRAINER.replace("bf16=True", arguments)).why


def test_adapters_under_zero3_are_left_alone() -> None:
    around = 'from peft import get_peft_model\nconfig = {"stage": 3}\n'
    assert "ZeRO-3" in refused(LOOP, around=around).why


def test_versions_that_cannot_say_it_are_left_alone() -> None:
    assert "before 4.35" in refused(LOOP, versions="transformers=4.30.0").why
