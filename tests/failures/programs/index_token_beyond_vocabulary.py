"""A token was added to the tokenizer, and the embedding has no row for it."""
# run: python index_token_beyond_vocabulary.py
# cause: index.embedding
# fix-says: resize_token_embeddings

import torch
from transformers import GPT2Config, GPT2LMHeadModel

model = GPT2LMHeadModel(GPT2Config(vocab_size=32, n_positions=16, n_embd=8, n_layer=1, n_head=1))
# fixed: model.resize_token_embeddings(33)
ids = torch.tensor([[1, 2, 32]])
print(model(input_ids=ids).logits.shape)  # fails here
