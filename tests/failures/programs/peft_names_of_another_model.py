"""LoRA is told the projection names of another family."""
# run: python peft_names_of_another_model.py
# cause: peft.target_modules
# says: c_attn
# fix-says: q_proj

from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

config = LlamaConfig(vocab_size=32, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2)
lora = LoraConfig(r=2, target_modules=["c_attn"])  # broken
# fixed: lora = LoraConfig(r=2, target_modules=["q_proj", "v_proj"])
model = get_peft_model(LlamaForCausalLM(config), lora)  # fails here
model.print_trainable_parameters()
