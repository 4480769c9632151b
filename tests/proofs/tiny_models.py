"""Hugging Face models of two tiny layers, made from configs: nothing is downloaded."""

from __future__ import annotations

import os

os.environ["HF_HUB_OFFLINE"] = "1"

from transformers import (
    BertConfig,
    BertForMaskedLM,
    CLIPVisionConfig,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    LlavaConfig,
    LlavaForConditionalGeneration,
    T5Config,
    T5ForConditionalGeneration,
)

LAYERS = ("LlamaDecoderLayer", "GPT2Block", "T5Block", "BertLayer")
SIZE = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
NO_TEXT = {"vocab_size": 64, "bos_token_id": None, "eos_token_id": None}


def llama(**options):
    return LlamaForCausalLM(LlamaConfig(**SIZE, **NO_TEXT, **options))


def gpt2(**options):
    no_dropout = {"resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0}
    return GPT2LMHeadModel(GPT2Config(n_embd=32, n_layer=2, n_head=4, **no_dropout, **NO_TEXT, **options))


def t5():
    size = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "dropout_rate": 0}
    return T5ForConditionalGeneration(T5Config(vocab_size=64, decoder_start_token_id=0, **size))


def llava():
    vision = CLIPVisionConfig(image_size=8, patch_size=4, **SIZE)
    text = LlamaConfig(**SIZE, **NO_TEXT)
    return LlavaForConditionalGeneration(LlavaConfig(vision_config=vision, text_config=text, image_token_index=63))


def bert():
    no_dropout = {"hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0}
    return BertForMaskedLM(BertConfig(vocab_size=64, **SIZE, **no_dropout))
