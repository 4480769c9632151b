"""Hugging Face decoders that are checkpointed: what builds and trains them, and what their KV cache is set to."""
