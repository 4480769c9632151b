"""What transformers, peft, DeepSpeed, FSDP, Megatron and Lightning refuse."""

from __future__ import annotations

from typing import TYPE_CHECKING

from remat.diagnose.signature import Facts, Signature

if TYPE_CHECKING:
    from remat.diagnose.signature import Seen


def _product(seen: Seen) -> Facts | None:
    facts = dict(seen.facts)
    try:
        batch, micro, steps, world = (int(facts[name]) for name in ("batch", "micro", "steps", "world"))
    except (KeyError, ValueError):
        return {
            **facts,
            "numbers": "the three factors do not give train_batch_size",
            "why": "One of the four numbers is wrong.",
            "remedy": "correct it",
        }
    facts["numbers"] = f"{batch} != {micro} * {steps} * {world} = {micro * steps * world}"
    if world == 1 and micro * steps and batch % (micro * steps) == 0:
        right = batch // (micro * steps)
        facts["why"] = (
            f"The world size is 1: with {right} GPUs {micro} * {steps} * {right} = {batch} would hold, so it "
            f"was launched without the distributed launcher."
        )
        facts["remedy"] = (
            "launch with deepspeed/torchrun (and import deepspeed after the launcher's environment is set)"
        )
    else:
        facts["why"] = f"With {world} ranks the train batch must be a multiple of {micro} * {world} = {micro * world}."
        facts["remedy"] = f'choose a train_batch_size = k * {micro} * {world}, or use "auto"'
    return facts


_NEW_NAMES = {
    "evaluation_strategy": "eval_strategy",
    "tokenizer": "processing_class",
    "no_cuda": "use_cpu",
    "per_gpu_train_batch_size": "per_device_train_batch_size",
    "per_gpu_eval_batch_size": "per_device_eval_batch_size",
    "group_by_length": 'train_sampling_strategy="group_by_length"',
    "max_seq_length": "max_length",
    "warmup_ratio": "warmup_steps (a float below 1 is a ratio)",
}


def _renamed(seen: Seen) -> Facts | None:
    """Python before 3.10 does not print the class: then only a name that was renamed proves whose argument it is."""
    name = seen.facts["name"]
    if "." not in seen.facts["where"] and name not in _NEW_NAMES:
        return None
    new = _NEW_NAMES.get(name)
    remedy = f"Write {new} instead of {name}" if new else f"Rename {name} to what this version calls it"
    return {**seen.facts, "remedy": remedy}


SIGNATURES = (
    Signature(
        id="ds.batch_size_mismatch",
        words=("train_batch_size is not equal to micro_batch_per_gpu",),
        pattern=r"train_batch_size is not equal to micro_batch_per_gpu(?:[^\d]{0,80}(?P<batch>\d{1,18}) != "
        r"(?P<micro>\d{1,18}) \* (?P<steps>\d{1,18}) \* (?P<world>\d{1,18}))?",
        read=_product,
        cause="DeepSpeed's batch sizes contradict each other: train_batch_size {numbers}. {why}",
        fix="Make them agree: {remedy}.",
        verify="train_batch_size == micro_batch_per_gpu * gradient_accumulation_steps * world_size, with "
        "world_size printed on rank 0",
        sources=("deepspeed/runtime/config.py:603, deepspeed 0.19.8",),
        examples=(
            (
                "AssertionError: Check batch related parameters. train_batch_size is not equal to "
                "micro_batch_per_gpu * gradient_acc_step * world_size 256 != 4 * 8 * 1"
            ),
        ),
    ),
    Signature(
        id="hf.renamed_argument",
        words=("got an unexpected keyword argument",),
        pattern=r"\b(?P<where>(?:(?:\w{0,40}TrainingArguments|\w{0,40}Trainer|\w{1,40}Config)\.)?__init__)\(\) "
        r"got an unexpected keyword argument '(?P<name>\w+)'",
        read=_renamed,
        cause="The installed version's {where} has no argument '{name}': it was renamed or removed.",
        fix="{remedy}, or install the version the code was written for.",
        runnable=True,
        verify="python -c 'import inspect, transformers; print(inspect.signature(transformers.TrainingArguments))'",
        sources=("transformers/training_args.py, transformers 5.24.0",),
        examples=(
            ("TypeError: TrainingArguments.__init__() got an unexpected keyword argument 'evaluation_strategy'"),
        ),
    ),
    Signature(
        id="hf.best_model_strategy",
        words=(
            "--load_best_model_at_end requires the save and eval strategy to match",
            "requires the saving steps to be a",
        ),
        pattern=r"--load_best_model_at_end requires the sav\w+ (?:and eval strategy to match|steps)",
        cause="load_best_model_at_end needs the save and eval strategies to match, and they differ.",
        fix="Make save_strategy equal to eval_strategy (and save_steps a multiple of eval_steps).",
        verify="construct the TrainingArguments alone",
        sources=("transformers/training_args.py:1752, transformers 5.24.0",),
        examples=("ValueError: --load_best_model_at_end requires the save and eval strategy to match, but found",),
    ),
    Signature(
        id="hf.no_loss",
        words=("The model did not return a loss from the inputs",),
        pattern=r"did not return a loss from the inputs, only the following keys: (?P<keys>.{1,200}?)\. For "
        r"reference, the inputs it received are (?P<inputs>.{1,200}?)\.(?:\s|$)",
        cause="The model returned no loss (only {keys}): the batch has no labels (its inputs are {inputs}).",
        fix="Give the dataset a `labels` column, or a collator that makes labels "
        "(DataCollatorForLanguageModeling(mlm=False)).",
        verify="print(next(iter(trainer.get_train_dataloader())).keys())",
        sources=("transformers/trainer.py:2201, transformers 5.24.0",),
        examples=(
            (
                "ValueError: The model did not return a loss from the inputs, only the following keys: logits. For "
                "reference, the inputs it received are input_ids."
            ),
        ),
    ),
    Signature(
        id="hf.no_columns",
        words=("No columns in the dataset match the model's forward method signature",),
        pattern=r"No columns in the dataset match the model's forward method signature",
        cause="None of the dataset's columns is an argument of the model's forward: it was not tokenised, or "
        "has other names.",
        fix="Tokenise it (map to input_ids, attention_mask, labels), or set remove_unused_columns=False with a "
        "collator that does.",
        verify="print(dataset.column_names)",
        sources=("transformers/trainer.py:1217, transformers 5.24.0",),
        examples=(
            "ValueError: No columns in the dataset match the model's forward method signature: (input_ids, labels).",
        ),
    ),
    Signature(
        id="hf.no_pad_token",
        words=(
            "Asking to pad but the tokenizer does not have a padding token",
            "Cannot handle batch sizes > 1 if no padding token",
        ),
        pattern=r"Asking to pad but the tokenizer does not have a padding token|Cannot handle batch sizes > 1 "
        r"if no padding token",
        cause="Padding was asked for, and the tokenizer (or model config) has no padding token.",
        fix="Set tokenizer.pad_token = tokenizer.eos_token (and model.config.pad_token_id).",
        verify="print(tokenizer.pad_token)",
        sources=("transformers/tokenization_utils_base.py, transformers 5.24.0",),
        examples=("ValueError: Asking to pad but the tokenizer does not have a padding token.",),
    ),
    Signature(
        id="hf.ragged_batch",
        words=(
            "Unable to create tensor, you should probably activate truncation and/or padding",
            "expected sequence of length ",
        ),
        pattern=r"Unable to create tensor, you should probably activate truncation and/or padding"
        r"|expected sequence of length \d+ at dim \d+ \(got \d+\)",
        cause="The sequences of one batch have different lengths, and no padding was asked for.",
        fix="Tokenise with padding=True, truncation=True, or use a padding collator.",
        verify="tokenizer(batch, padding=True, truncation=True, return_tensors='pt')",
        sources=("transformers/tokenization_utils_base.py:765, transformers 5.24.0",),
        examples=(
            (
                "ValueError: Unable to create tensor, you should probably activate truncation and/or padding with "
                "'padding=True' 'truncation=True'."
            ),
        ),
    ),
    Signature(
        id="peft.target_modules",
        words=("not found in the base model",),
        pattern=r"Target modules (?P<names>.{1,300}?) not found in the base model",
        cause="LoRA's target modules {names} are not in this model.",
        fix="Use module names of this model (Llama-like: q_proj, k_proj, v_proj, o_proj; or "
        'target_modules="all-linear").',
        verify="print({{n.rsplit('.')[-1] for n, m in model.named_modules()}})",
        sources=("peft/tuners/tuners_utils.py",),
        examples=(
            (
                "ValueError: Target modules {'c_attn'} not found in the base model. Please check the target modules "
                "and try again."
            ),
        ),
    ),
    Signature(
        id="fsdp.mixed_requires_grad",
        words=("Must flatten tensors with uniform ",),
        pattern=r"Must flatten tensors with uniform `?requires_grad",
        cause="FSDP flattens frozen and trained parameters of one wrapped module together, and cannot with "
        "use_orig_params=False.",
        fix="Use use_orig_params=True for LoRA or frozen parts, or wrap frozen and trained modules separately.",
        verify="construct the FSDP wrapper alone",
        sources=("torch/distributed/fsdp/_flat_param.py, torch 2.13.0",),
        examples=(
            "ValueError: Must flatten tensors with uniform requires_grad when use_orig_params=False",
            "ValueError: Must flatten tensors with uniform `requires_grad` when `use_orig_params=False`",
        ),
    ),
    Signature(
        id="fsdp.mixed_dtensor",
        words=("got mixed torch.Tensor and DTensor",),
        pattern=r"\b(?P<op>[\w.]{1,80}): got mixed torch\.Tensor and DTensor",
        cause="One operation ({op}) got a plain tensor and a DTensor: part of the model is sharded, the other "
        "operand is not.",
        fix="Shard or distribute both operands (fully_shard the module that owns it, distribute_tensor), or use "
        ".full_tensor()/.to_local().",
        verify="print(type(a), type(b)) before that line",
        sources=("torch/distributed/tensor/_dispatch.py:819, torch 2.13.0",),
        extra={"op": "see the message"},
        examples=(
            (
                "RuntimeError: aten.mul.Tensor: got mixed torch.Tensor and DTensor, need to convert all "
                "torch.Tensor to DTensor before calling distributed operators!"
            ),
        ),
    ),
    Signature(
        id="megatron.world_size",
        words=("is not divisible by",),
        pattern=r"world[ _]size \(?(?P<world>\d{1,18})?\)?.{0,20}is not divisible by (?P<by>.{1,200})",
        cause="The world size does not fit the parallel layout: world size {world} is not divisible by {by}",
        fix="Choose tensor * pipeline * context parallel sizes whose product divides the world size.",
        verify="TP * PP * CP divides WORLD_SIZE",
        sources=("megatron/arguments.py validate_args",),
        extra={"world": "(see message)"},
        examples=("AssertionError: world size (8) is not divisible by total_model_size 3",),
    ),
    Signature(
        id="lightning.no_device",
        words=(
            "No supported gpu backend found",
            "backend found!",
            "accelerator can not run on your system",
            "No supported",
        ),
        pattern=r"No supported (?P<kind>\w+) backend found|\b(?P<kind2>\w{1,40})Accelerator`? can not run on "
        r"your system",
        cause="Lightning was asked for a gpu accelerator, and none is visible to this process.",
        fix='No supported GPU is visible: run where one is, install a CUDA build of torch, or use accelerator="auto".',
        runnable=True,
        verify="python -c 'import torch; print(torch.cuda.is_available(), torch.version.cuda)'; nvidia-smi -L",
        sources=("lightning/pytorch/trainer/connectors/accelerator_connector.py",),
        examples=(
            ("lightning.fabric.utilities.exceptions.MisconfigurationException: No supported gpu backend found!"),
        ),
    ),
)
