"""LoRA on a frozen vision model with reentrant gradient checkpointing: the patches require no grad."""
# run: python peft_reentrant_gradient_checkpointing.py
# cause: ckpt.no_input_requires_grad
# fix-says: enable_input_require_grads()

import torch
from peft import LoraConfig, get_peft_model
from transformers import ViTConfig, ViTModel

config = ViTConfig(
    hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, image_size=8, patch_size=4
)
base = ViTModel(config, add_pooling_layer=False)
model = get_peft_model(base, LoraConfig(r=2, target_modules="all-linear"))
base.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": True})
# fixed: base.enable_input_require_grads()
model.train()
out = model(pixel_values=torch.randn(2, 3, 8, 8)).last_hidden_state
out.mean().backward()  # fails here
