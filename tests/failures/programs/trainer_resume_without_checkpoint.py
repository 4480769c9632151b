"""A first run is started with resume_from_checkpoint=True."""
# run: python trainer_resume_without_checkpoint.py
# cause: state.no_checkpoint
# fix-says: resume_from_checkpoint

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

ids = torch.randint(0, 32, (8, 6))
rows = [{"input_ids": row, "labels": row} for row in ids]
model = GPT2LMHeadModel(GPT2Config(vocab_size=32, n_positions=16, n_embd=8, n_layer=1, n_head=1))
arguments = TrainingArguments("out", max_steps=2, report_to=[], use_cpu=True, save_strategy="no")
trainer = Trainer(model, arguments, train_dataset=rows)
# fixed: trainer.train(resume_from_checkpoint=None)
trainer.train(resume_from_checkpoint=True)  # broken, fails here
