"""The dataset has no labels, so that the model returns no loss."""
# run: python trainer_without_labels.py
# cause: hf.no_loss
# says: no labels
# fix-says: labels

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

ids = torch.randint(0, 32, (8, 6))
rows = [{"input_ids": row} for row in ids]  # broken
# fixed: rows = [{"input_ids": row, "labels": row} for row in ids]
model = GPT2LMHeadModel(GPT2Config(vocab_size=32, n_positions=16, n_embd=8, n_layer=1, n_head=1))
arguments = TrainingArguments("out", max_steps=2, report_to=[], use_cpu=True, save_strategy="no")
Trainer(model, arguments, train_dataset=rows).train()  # fails here
