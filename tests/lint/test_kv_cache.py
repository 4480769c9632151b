"""Which ways of turning the KV cache off count, which models and trainers are known, and where the fix goes."""

from __future__ import annotations

import pytest

from remat.finding import Finding, Severity
from remat.lint.check import check as check_text
from remat.lint.project import Project, summarise
from remat.lint.rule import Context
from remat.settings import Settings
from remat.versions import Versions

RULE = "checkpoint-with-kv-cache"
LOOP = """
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained(name)
model.gradient_checkpointing_enable()
{}
for batch in loader:
    model(**batch).loss.backward()
"""
TRAINER = """
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
model = AutoModelForCausalLM.from_pretrained(name)
args = TrainingArguments("out", gradient_checkpointing=True)
{}
Trainer(model, args).train()
"""
OUTSIDE = """
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from transformers import {cls}
model = {cls}.from_pretrained(name)
{wrap}
for batch in loader:
    model(input_ids=batch).loss.backward()
"""


def check(text: str, versions: str = "", report: str = "default", **beside: str) -> list[Finding]:
    files = tuple(summarise(path.replace("__", "."), content) for path, content in beside.items())
    context = Context(Versions.parse(versions), Settings(options={RULE: {"report": report}}), Project(files))
    return [f for f in check_text(text, context) if f.rule == RULE]


def row(text: str, finding: Finding) -> str:
    return text[: finding.span.end].rpartition("\n")[2] + text[finding.span.end :].partition("\n")[0]


@pytest.mark.parametrize(
    "off",
    [
        "model.config.use_cache = False",
        "model.config.text_config.use_cache = False",
        "model.config.get_text_config().use_cache = False",
        'setattr(model.config, "use_cache", False)',
        "if hasattr(model.config, 'use_cache'):\n    model.config.use_cache = False",
        'batch_extra["use_cache"] = False',
        'extra = {"use_cache": False}',
        "extra = dict(use_cache=False)",
        "model.config.use_cache = not args.gradient_checkpointing",
        "model.config.use_cache = args.use_cache",
        "use_cache: bool = False",
        "config = AutoConfig.from_pretrained(name, use_cache=False)",
    ],
)
def test_every_form_of_turning_the_cache_off_counts(off: str) -> None:
    assert check(LOOP.format(off)) == []
    assert check(TRAINER.format(off), "transformers=4.57.6") == []


@pytest.mark.parametrize(
    "on",
    [
        "",
        "# model.config.use_cache = False",
        "model.generation_config.use_cache = False",
        "model.generate(ids, use_cache=False)",
        "config = GenerationConfig(use_cache=False)",
        "model.config.use_cache = True",
        "with torch.no_grad():\n    model(**sample, use_cache=False)",
        'print("`use_cache=True` is incompatible with checkpointing")',
    ],
)
def test_what_training_does_not_look_at_does_not_count(on: str) -> None:
    assert len(check(LOOP.format(on))) == 1
    assert len(check(TRAINER.format(on), "transformers=4.57.6")) == 1


@pytest.mark.parametrize(
    "build",
    [
        "AutoModelForSequenceClassification.from_pretrained(name)",
        "AutoModel.from_pretrained(name)",
        "BertLMHeadModel.from_pretrained(name)",
        "BartForConditionalGeneration.from_pretrained(name)",
        "T5EncoderModel.from_pretrained(name)",
        "UNet2DConditionModel.from_pretrained(name)",
        "build_model(name)",
        "AutoModelForCausalLM.from_pretrained(name) if text else AutoModel.from_pretrained(name)",
    ],
)
def test_a_model_that_may_have_no_cache_is_left_alone(build: str) -> None:
    text = LOOP.replace("AutoModelForCausalLM.from_pretrained(name)", build)
    text = text.replace("import AutoModelForCausalLM", "import *").replace(
        "import *", "import AutoModelForCausalLM, AutoModel"
    )
    names = "AutoModelForSequenceClassification, BertLMHeadModel, BartForConditionalGeneration, T5EncoderModel"
    assert check(text.replace("AutoModel\n", f"AutoModel, {names}\n", 1).format("")) == []


def test_a_model_is_followed_through_functions_wrappers_and_unpacking() -> None:
    text = """
import deepspeed
from peft import get_peft_model
from transformers import AutoModelForCausalLM

def load(args):
    model = AutoModelForCausalLM.from_pretrained(args.name)
    return get_peft_model(model, lora), tokenizer

def main(args):
    model, tokenizer = load(args)
    if args.gradient_checkpointing:
        model.gradient_checkpointing_enable()
    engine, optimizer, _, _ = deepspeed.initialize(model=model, config=config)
    for batch in loader:
        loss = engine(input_ids=batch, labels=batch).loss
        engine.backward(loss)
"""
    (finding,) = check(text)
    assert row(text, finding).strip() == "model.gradient_checkpointing_enable()"
    assert finding.fix is not None
    assert "engine(input_ids=batch, labels=batch, use_cache=False)" in finding.fix.apply(text)


def test_a_lightning_module_is_a_training_loop() -> None:
    text = """
import lightning as L
from transformers import AutoModelForCausalLM

class Tuner(L.LightningModule):
    def __init__(self, name):
        super().__init__()
        self.model = AutoModelForCausalLM.from_pretrained(name)
        self.model.gradient_checkpointing_enable()

    def training_step(self, batch, index):
        return self.model(input_ids=batch, labels=batch).loss
"""
    (finding,) = check(text)
    assert finding.severity is Severity.INFO


def test_a_wrapper_that_passes_the_request_on_turns_nothing_on_itself() -> None:
    text = """
from transformers import AutoModelForCausalLM
class Actor:
    def __init__(self, name):
        self.model = AutoModelForCausalLM.from_pretrained(name)
    def gradient_checkpointing_enable(self, **kwargs):
        self.model.gradient_checkpointing_enable(**kwargs)
    def step(self, batch):
        self.model(input_ids=batch).loss.backward()
"""
    assert check(text) == []


def test_a_file_without_a_training_loop_or_trainer_is_left_alone() -> None:
    text = LOOP.format("").replace(".backward()", ".item()")
    assert check(text, "transformers=4.57.6") == []


def test_a_forward_call_in_a_function_that_trains_nothing_is_left_alone() -> None:
    text = """
from transformers import AutoModelForCausalLM

def test_forward():
    model = AutoModelForCausalLM.from_pretrained(name)
    model.gradient_checkpointing_enable()
    _ = model(ids)

def test_other(net):
    net(ids).sum().backward()
"""
    assert check(text) == []


def test_trl_trainers_pass_use_cache_themselves() -> None:
    text = TRAINER.format("").replace("\nTrainer(", "\nSFTTrainer(") + "\nfrom trl import SFTTrainer\n"
    assert check(text, "transformers=4.57.6") == []


def test_a_class_derived_from_the_trainer_is_one() -> None:
    text = TRAINER.format("class Ours(Trainer):\n    pass").replace("\nTrainer(", "\nOurs(")
    assert len(check(text, "transformers=4.57.6")) == 1


@pytest.mark.parametrize(
    ("versions", "report", "found"),
    [
        ("", "default", 0),
        ("", "always", 1),
        ("transformers=4.57.6", "default", 1),
        ("transformers=4.57.6", "harm", 0),
        ("transformers=5.0.0", "default", 0),
        ("transformers=5.24.0", "always", 1),
    ],
)
def test_the_trainer_is_judged_by_its_version(versions: str, report: str, found: int) -> None:
    assert len(check(TRAINER.format(""), versions, report)) == found


def test_the_new_trainers_write_does_not_help_a_class_that_never_reads_it() -> None:
    text = TRAINER.format("").replace("AutoModelForCausalLM", "T5ForConditionalGeneration")
    (finding,) = check(text, "transformers=5.24.0")
    assert finding.severity is Severity.INFO
    assert finding.fix is not None
    assert "\nmodel.decoder.config.use_cache = False\nTrainer(" in finding.fix.apply(text)
    text = text.replace("gradient_checkpointing=True", 'fsdp_config={"activation_checkpointing": True}')
    assert [f.severity for f in check(text, "transformers=5.24.0")] == [Severity.WARNING]


def test_a_flag_of_the_command_line_is_reported_at_the_trainer() -> None:
    text = """
from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments
(training_args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
model = AutoModelForCausalLM.from_pretrained(name)
if training_args.gradient_checkpointing:
    model.enable_input_require_grads()
trainer = Trainer(model=model, args=training_args)
"""
    (finding,) = check(text, "transformers=4.57.6")
    assert row(text, finding).startswith("trainer = Trainer(")
    assert finding.message.startswith("where the flag is set, ")
    assert finding.fix is not None
    assert "\nmodel.config.use_cache = False\ntrainer = Trainer(" in finding.fix.apply(text)
    assert (
        check(text.replace("\nif ", "\ntraining_args.gradient_checkpointing = False\nif "), "transformers=4.57.6") == []
    )


@pytest.mark.parametrize("argument", ["use_gradient_checkpointing=False", "False", "**options"])
def test_a_preparation_that_may_not_enable_is_left_alone(argument: str) -> None:
    text = f"""
from peft import prepare_model_for_kbit_training
from transformers import AutoModelForCausalLM, Trainer
model = AutoModelForCausalLM.from_pretrained(name, load_in_4bit=True)
model = prepare_model_for_kbit_training(model, {argument})
Trainer(model, args).train()
"""
    assert check(text, "transformers=4.57.6") == []


def test_while_a_statement_about_the_cache_is_half_typed_nothing_is_claimed() -> None:
    assert check(LOOP.format("model.config.use_cache = Fal(")) == []


@pytest.mark.parametrize(
    "wrap",
    [
        "apply_activation_checkpointing(model)",
        "for i, layer in enumerate(model.model.layers):\n    model.model.layers[i] = checkpoint_wrapper(layer)",
        "for i in range(2):\n    model.model.layers[i] = checkpoint_wrapper(model.model.layers[i])",
    ],
)
def test_layers_wrapped_from_outside_are_a_warning(wrap: str) -> None:
    (finding,) = check(OUTSIDE.format(cls="LlamaForCausalLM", wrap=wrap))
    assert finding.severity is Severity.WARNING
    assert finding.fix is not None
    assert finding.fix.safe


@pytest.mark.parametrize(
    "wrap",
    [
        "apply_activation_checkpointing(model, check_fn=policy)",
        "model.config.use_cache = False\napply_activation_checkpointing(model)",
        "for i in range(2):\n    model.vision_tower.layers[i] = checkpoint_wrapper(model.vision_tower.layers[i])",
        "head = checkpoint_wrapper(model.lm_head)",
    ],
)
def test_wrapping_that_may_not_touch_the_cache_is_left_alone(wrap: str) -> None:
    assert check(OUTSIDE.format(cls="LlamaForCausalLM", wrap=wrap)) == []


def test_wrapping_from_outside_was_harmless_while_the_cache_was_a_tuple() -> None:
    text = OUTSIDE.format(cls="LlamaForCausalLM", wrap="apply_activation_checkpointing(model)")
    assert check(text, "transformers=4.35.2") == []


def test_with_the_models_own_checkpointing_on_as_well_the_cache_is_dropped() -> None:
    wrap = "model.gradient_checkpointing_enable()\napply_activation_checkpointing(model)"
    (finding,) = check(OUTSIDE.format(cls="LlamaForCausalLM", wrap=wrap))
    assert finding.severity is Severity.INFO


@pytest.mark.parametrize(("versions", "found"), [("transformers=4.57.6", 1), ("transformers=5.24.0", 0), ("", 0)])
def test_fsdps_own_checkpointing_under_the_trainer_is_judged_by_its_version(versions: str, found: int) -> None:
    text = TRAINER.format("").replace("gradient_checkpointing=True", 'fsdp_config={"activation_checkpointing": True}')
    findings = check(text, versions)
    assert [f.severity for f in findings] == [Severity.WARNING] * found


@pytest.mark.parametrize(
    ("cls", "versions", "dead"),
    [
        ("LlavaForConditionalGeneration", "4.57.6", True),
        ("LlavaForConditionalGeneration", "5.0.0", False),
        ("LlavaNextForConditionalGeneration", "4.57.6", True),
        ("LlavaNextForConditionalGeneration", "5.24.0", False),
        ("Qwen2VLForConditionalGeneration", "4.57.6", False),
        ("Qwen2VLForConditionalGeneration", "5.24.0", True),
        ("T5ForConditionalGeneration", "4.57.6", False),
        ("T5ForConditionalGeneration", "5.24.0", True),
        ("LlamaForCausalLM", "5.24.0", False),
    ],
)
def test_whether_a_write_to_the_configuration_counts_depends_on_class_and_version(
    cls: str, versions: str, *, dead: bool
) -> None:
    text = LOOP.format("model.config.use_cache = False").replace("AutoModelForCausalLM", cls)
    assert [f.severity for f in check(text, f"transformers={versions}")] == [Severity.WARNING] * dead


def test_a_dead_write_does_not_save_layers_wrapped_from_outside() -> None:
    wrap = "model.config.use_cache = False\napply_activation_checkpointing(model)"
    (finding,) = check(OUTSIDE.format(cls="LlavaForConditionalGeneration", wrap=wrap), "transformers=4.57.6")
    assert "checkpointed from outside" in finding.message
    assert "has no effect" in finding.message


@pytest.mark.parametrize(
    ("load", "safe"), [("name", True), ("name, trust_remote_code=False", True), ("name, trust_remote_code=True", False)]
)
def test_the_call_argument_is_safe_unless_the_code_is_remote(load: str, *, safe: bool) -> None:
    text = LOOP.format("").replace("(name)", f"({load})").replace("**batch", "batch")
    (finding,) = check(text)
    assert finding.fix is not None
    assert finding.fix.safe is safe


def test_where_the_call_unpacks_a_mapping_the_fix_writes_the_configuration_and_is_not_safe() -> None:
    text = LOOP.format("").replace("\n", "\r\n")
    (finding,) = check(text)
    assert finding.fix is not None
    assert not finding.fix.safe
    assert "enable()\r\nmodel.config.use_cache = False\r\n" in finding.fix.apply(text)


def test_no_fix_where_the_write_is_not_known_to_work() -> None:
    (finding,) = check(LOOP.format("").replace("CausalLM", "Seq2SeqLM"), "transformers=5.24.0")
    assert finding.fix is None


def test_no_fix_inside_a_one_line_if() -> None:
    text = LOOP.format("").replace("model.grad", "if flag: model.grad")
    (finding,) = check(text)
    assert finding.fix is None


def test_a_cache_on_by_the_files_own_argument_is_turned_off_there() -> None:
    text = TRAINER.format("").replace("(name)", "(name, use_cache=True)")
    (finding,) = check(text, "transformers=4.57.6")
    assert finding.fix is not None
    assert "from_pretrained(name, use_cache=False)" in finding.fix.apply(text)


def test_a_configuration_file_that_the_script_reads_may_turn_it_off() -> None:
    text = LOOP.format("config = yaml.safe_load(file)")
    assert len(check(text)) == 1
    assert check(text, model__yaml="use_cache: false\n") == []


def test_an_imported_function_counts_only_where_it_is_given_the_model() -> None:
    helper = "def quiet(model):\n    setattr(model.config, 'use_cache', False)\n"
    imported = "from helper import quiet\n"
    assert check(LOOP.format(imported + "quiet(model)"), helper__py=helper) == []
    assert len(check(LOOP.format(imported + "quiet(model.named_parameters())"), helper__py=helper)) == 1
