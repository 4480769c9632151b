"""A variant applied to a model: its checkpointing, dtype and adapters."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, cast

import torch
from torch.utils import checkpoint as torch_checkpoint

from remat.probe.libraries import is_hugging_face, without_adapters
from remat.probe.messages import AS_WRITTEN, SELECTIVE_KEEPS
from remat.probe.simulated.blocks import repeated_blocks
from remat.probe.simulated.checkpoint_calls import Chosen
from remat.probe.simulated.fakes import cast_module

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import nn

    from remat.probe.messages import Variant
    from remat.probe.simulated.checkpoint_calls import Policy

DTYPES = {
    "fp32": torch.float32, "float32": torch.float32, "fp16": torch.float16, "float16": torch.float16,
    "bf16": torch.bfloat16, "bfloat16": torch.bfloat16,
}  # fmt: skip


class CannotApplyError(Exception):
    """The variant doesn't fit this model; the text says what was expected and what to do."""


def dtype_of(name: str) -> torch.dtype:
    if name not in DTYPES:
        raise CannotApplyError(f"expected a dtype among fp32, fp16, bf16, got {name!r}")
    return DTYPES[name]


def apply_variant(model: nn.Module, variant: Variant) -> tuple[nn.Module, Policy]:
    """The model as the variant wants it, and which calls of `checkpoint` then count."""
    if variant.dtype is not None:
        # Hugging Face keeps buffers that are not saved (rotary frequencies) in fp32 whatever the dtype.
        cast_module(model, dtype_of(variant.dtype), buffers=not is_hugging_face(model))
    if variant.lora_rank is not None:
        model = _with_lora(model, variant)
    return model, _checkpoint(model, variant)


def _checkpoint(model: nn.Module, variant: Variant) -> Policy:
    how = variant.checkpointing
    if how in {AS_WRITTEN, ""}:
        return "all"
    if how == "none":
        return "none"
    settings: dict[str, object] = {"use_reentrant": variant.reentrant}
    if how == "selective":
        settings["context_fn"] = _selective_contexts()
    enable = _own_switch(model)
    if enable is not None and how in {"all", "selective"}:
        enable(settings)
        return "all"
    names = _chosen(model, how)
    for name in names:
        _wrap(model.get_submodule(name), settings)
    return "chosen"


def _chosen(model: nn.Module, how: str) -> list[str]:
    if how.startswith("modules:"):
        patterns = how.removeprefix("modules:").split(",")
        names = [name for name, _ in model.named_modules() if any(fnmatchcase(name, p.strip()) for p in patterns)]
        if not names:
            raise CannotApplyError(
                f"no module is named like {how.removeprefix('modules:')!r}; names are those of named_modules()"
            )
        return names
    blocks = repeated_blocks(model)
    if not blocks:
        raise CannotApplyError(
            "this model has no repeated blocks to checkpoint; name them: checkpointing modules:NAME,NAME"
        )
    if how.startswith("first-") and how[6:].isdecimal():
        if int(how[6:]) > len(blocks):
            raise CannotApplyError(f"{how} asks for more than the {len(blocks)} blocks that there are")
        return blocks[: int(how[6:])]
    return blocks[:: _every(how)]


def _every(how: str) -> int:
    if how in {"all", "selective"}:
        return 1
    number = how.removeprefix("every-")
    if not (how.startswith("every-") and number.isdecimal() and int(number) > 0):
        raise CannotApplyError(
            f"expected checkpointing none, all, first-N, every-N, selective or modules:NAMES, got {how!r}"
        )
    return int(number)


def _own_switch(model: nn.Module) -> Callable[[dict[str, object]], None] | None:
    """The model's own way to checkpoint all its blocks, as Hugging Face's libraries have it."""
    base = without_adapters(model)
    if not (is_hugging_face(base) and getattr(base, "supports_gradient_checkpointing", False)):
        return None
    if hasattr(base, "activation_checkpointing_enable"):  # transformers >= 5.23
        return lambda settings: base.activation_checkpointing_enable(activation_checkpointing_kwargs=settings)
    return lambda settings: base.gradient_checkpointing_enable(gradient_checkpointing_kwargs=settings)


def _wrap(module: nn.Module, settings: dict[str, object]) -> None:
    forward = module.forward

    def checkpointed(*args: object, **kwargs: object) -> object:
        function = Chosen(partial(forward, **kwargs) if kwargs else forward)
        return torch_checkpoint.checkpoint(function, *args, **settings)

    module.forward = checkpointed


def _selective_contexts() -> Callable[[], object]:
    """Keep the results of matrix products and attention, recompute the rest (torch >= 2.4)."""
    keep = [attrgetter(name)(torch.ops.aten) for name in SELECTIVE_KEEPS]
    return partial(torch_checkpoint.create_selective_checkpoint_contexts, keep)


def adapters_assumed(variant: Variant) -> Iterator[str]:
    """What is not asked of LoRA adapters."""
    if variant.lora_rank is None:
        return
    layers = ", ".join(variant.lora_targets) or "all linear layers (target_modules='all-linear'; --lora-targets)"
    yield f"LoRA of rank {variant.lora_rank} on {layers}; no dropout; adapters are in fp32, as peft makes them"


def _with_lora(model: nn.Module, variant: Variant) -> nn.Module:
    try:
        import peft  # noqa: PLC0415 -- only where LoRA is asked for
    except ImportError:
        raise CannotApplyError("a LoRA rank needs the package peft in the environment of the model") from None
    targets: object = list(variant.lora_targets) or "all-linear"
    config = peft.LoraConfig(r=variant.lora_rank, lora_alpha=2 * cast("int", variant.lora_rank), target_modules=targets)
    if hasattr(model, "enable_input_require_grads"):
        model.enable_input_require_grads()
    return cast("nn.Module", peft.get_peft_model(model, config))
