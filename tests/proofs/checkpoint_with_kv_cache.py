"""Layers of a Hugging Face model checkpointed from outside write their KV cache twice: forward, then recomputation."""

from __future__ import annotations

import logging
from functools import partial

import pytest
import torch
from measure import close, equal, gradients, saved_bytes
from tiny_models import LAYERS, bert, gpt2, llama, llava, t5
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    CheckpointImpl,
    apply_activation_checkpointing,
    checkpoint_wrapper,
)

TOKENS = torch.randint(2, 63, (2, 16), generator=torch.Generator().manual_seed(0))
PADDING = torch.ones_like(TOKENS)
PADDING[1, 12:] = 0
NO_REENTRANT, REENTRANT = CheckpointImpl.NO_REENTRANT, CheckpointImpl.REENTRANT
SIZES = r"The size of tensor a \(32\) must match the size of tensor b \(16\)"


def build(make, impl=None, *, prepare=lambda _: None, layers=LAYERS):
    """A model in training mode whose layers `impl` checkpoints from outside (None: nothing does)."""
    torch.manual_seed(0)
    model = make().double().train()
    prepare(model)
    if impl is not None:
        wrapper = partial(checkpoint_wrapper, checkpoint_impl=impl)
        apply_activation_checkpointing(model, wrapper, check_fn=lambda module: type(module).__name__ in layers)
    return model


def loss(model, **call):
    return lambda: model(input_ids=TOKENS, labels=TOKENS, **call).loss


def step(make, impl=None, *, prepare=lambda _: None, layers=LAYERS, **call):
    model = build(make, impl, prepare=prepare, layers=layers)
    return [g for g in gradients(model, loss(model, **call)) if g is not None]  # Llava's vision tower sees no picture


both_models = pytest.mark.parametrize("make", [llama, gpt2])
both_kinds = pytest.mark.parametrize("impl", [NO_REENTRANT, REENTRANT])
both_masks = pytest.mark.parametrize("mask", [{}, {"attention_mask": PADDING}], ids=["unpadded", "padded"])


@both_models
def test_reentrant_without_padding_gives_wrong_gradients_and_no_error(make):
    assert not close(step(make, REENTRANT), step(make))


@both_models
@both_kinds
def test_with_a_padding_mask_the_step_fails_whichever_the_implementation(make, impl):
    with pytest.raises(RuntimeError, match=SIZES):
        step(make, impl, attention_mask=PADDING)


@both_models
@both_kinds
def test_with_eager_attention_the_step_fails_without_padding(make, impl):
    with pytest.raises(RuntimeError, match=SIZES):
        step(partial(make, attn_implementation="eager"), impl)


@both_models
@both_kinds
def test_the_cache_is_twice_as_long_after_backward_even_where_the_gradients_are_right_by_accident(make, impl):
    out = build(make, impl)(input_ids=TOKENS, labels=TOKENS)
    assert out.past_key_values.get_seq_length() == 16
    out.loss.backward()
    assert out.past_key_values.get_seq_length() == 32


@both_models
@both_kinds
@both_masks
def test_use_cache_false_in_the_call_gives_the_gradients_of_no_checkpoint(make, impl, mask):
    assert all(equal(step(make, impl, use_cache=False, **mask), step(make, **mask)))


@both_models
@both_kinds
def test_so_does_a_config_that_says_it_before_or_after_construction(make, impl):
    kept = step(make, attention_mask=PADDING)
    off = lambda model: setattr(model.config, "use_cache", False)  # noqa: E731
    assert all(equal(step(make, impl, prepare=off, attention_mask=PADDING), kept))
    assert all(equal(step(partial(make, use_cache=False), impl, attention_mask=PADDING), kept))


def test_the_generation_config_does_not_help():
    off = lambda model: setattr(model.generation_config, "use_cache", False)  # noqa: E731
    with pytest.raises(RuntimeError, match=SIZES):
        step(llama, NO_REENTRANT, prepare=off, attention_mask=PADDING)


@both_kinds
def test_a_multimodal_models_own_config_has_no_effect_and_its_text_config_has(impl):
    own = lambda model: setattr(model.config, "use_cache", False)  # noqa: E731
    text = lambda model: setattr(model.config.get_text_config(), "use_cache", False)  # noqa: E731
    kept = step(llava, attention_mask=PADDING)
    with pytest.raises(RuntimeError, match=SIZES):
        step(llava, impl, prepare=own, attention_mask=PADDING)
    assert all(equal(step(llava, impl, prepare=text, attention_mask=PADDING), kept))
    assert all(equal(step(llava, impl, use_cache=False, attention_mask=PADDING), kept))


def test_an_encoder_decoder_fails_on_transformers_5_24_even_with_its_config_set_and_not_with_the_argument():
    off = lambda model: setattr(model.config, "use_cache", False)  # noqa: E731
    with pytest.raises(torch.utils.checkpoint.CheckpointError, match="A different number of tensors was saved"):
        step(t5, NO_REENTRANT, prepare=off)
    assert close(step(t5, NO_REENTRANT, use_cache=False), step(t5))


@both_kinds
@both_masks
def test_an_encoder_has_no_cache_and_is_right_so_the_rule_is_silent(impl, mask):
    assert all(equal(step(bert, impl, **mask), step(bert, **mask)))


@both_kinds
@both_masks
def test_a_wrapped_mlp_writes_no_cache_and_is_right(impl, mask):
    assert all(equal(step(llama, impl, layers=("LlamaMLP",), **mask), step(llama, **mask)))


@both_kinds
def test_a_model_that_checkpoints_itself_too_turns_its_cache_off(impl):
    own = lambda model: model.gradient_checkpointing_enable()  # noqa: E731
    assert all(equal(step(llama, impl, prepare=own, attention_mask=PADDING), step(llama, attention_mask=PADDING)))


@both_models
def test_the_models_own_checkpointing_warns_and_costs_nothing_so_there_the_rule_only_informs(make, monkeypatch):
    said = []
    monkeypatch.setattr(logging.Logger, "warning_once", lambda _, text, *__: said.append(text))
    model = build(make, prepare=lambda m: m.gradient_checkpointing_enable())
    with_cache, without = loss(model), loss(model, use_cache=False)
    assert saved_bytes(model, with_cache) == saved_bytes(model, without)
    assert "use_cache=True` is incompatible with gradient checkpointing. Setting `use_cache=False`" in said[0]
    assert all(equal(gradients(model, with_cache), gradients(model, without)))
