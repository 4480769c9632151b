"""A model is named that is not in the cache, and the machine is offline."""
# run: python hub_offline.py
# cause: hub.unreachable
# fix-says: Pre-download

from transformers import AutoConfig, GPT2Config

GPT2Config(n_embd=8, n_head=1).save_pretrained("pre-downloaded")
name = "openai-community/gpt2"  # broken
# fixed: name = "pre-downloaded"  # the folder that `hf download` filled
print(AutoConfig.from_pretrained(name).n_embd)  # fails here
