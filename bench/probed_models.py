"""Models of known sizes, for `probe_speed.py`."""

from __future__ import annotations

from transformers import LlamaConfig, LlamaForCausalLM


def _llama(width: int, inner: int, layers: int, heads: int) -> LlamaForCausalLM:
    config = LlamaConfig(
        vocab_size=128_256,
        hidden_size=width,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=8,
        use_cache=False,
    )
    return LlamaForCausalLM(config)


def llama_1b() -> LlamaForCausalLM:
    return _llama(2048, 8192, 16, 32)


def llama_8b() -> LlamaForCausalLM:
    return _llama(4096, 14336, 32, 32)


def llama_70b() -> LlamaForCausalLM:
    return _llama(8192, 28672, 80, 64)
