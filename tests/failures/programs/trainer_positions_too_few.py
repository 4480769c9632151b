"""Sequences are longer than the model has positions."""
# run: python trainer_positions_too_few.py
# cause: index.embedding
# fix-says: truncate to max_position_embeddings
# fix-edits: n_positions

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

config = GPT2Config(vocab_size=32, n_positions=16, n_embd=8, n_layer=1, n_head=1)
ids = torch.randint(0, 32, (8, 20))
# fixed: ids = ids[:, : config.n_positions]
rows = [{"input_ids": row, "labels": row} for row in ids]
arguments = TrainingArguments("out", max_steps=2, report_to=[], use_cpu=True, save_strategy="no")
Trainer(GPT2LMHeadModel(config), arguments, train_dataset=rows).train()  # fails here
