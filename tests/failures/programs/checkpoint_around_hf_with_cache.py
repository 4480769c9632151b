"""Layers of a Hugging Face model are checkpointed from outside: its KV cache grows again when they are recomputed."""
# run: python checkpoint_around_hf_with_cache.py
# cause: ckpt.metadata_mismatch
# fix-rule: checkpoint-with-kv-cache

import functools

import torch
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    CheckpointImpl,
    apply_activation_checkpointing,
    checkpoint_wrapper,
)
from transformers import AutoModelForCausalLM, LlamaConfig
from transformers.models.llama.modeling_llama import LlamaDecoderLayer

config = LlamaConfig(
    vocab_size=64,
    hidden_size=16,
    intermediate_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    attn_implementation="eager",
)
model = AutoModelForCausalLM.from_config(config)
wrapper = functools.partial(checkpoint_wrapper, checkpoint_impl=CheckpointImpl.NO_REENTRANT)
apply_activation_checkpointing(
    model, checkpoint_wrapper_fn=wrapper, check_fn=lambda module: isinstance(module, LlamaDecoderLayer)
)
model.train()
ids = torch.randint(0, 64, (2, 8))
loss = model(input_ids=ids, labels=ids).loss
loss.backward()  # fails here
