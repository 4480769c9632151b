"""Sentences of different lengths are to become one tensor, without padding."""
# run: python tokenizer_ragged_batch.py
# cause: hf.ragged_batch
# fix-says: padding=True

from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

words = Tokenizer(models.WordLevel({"a": 0, "b": 1, "<pad>": 2, "<unk>": 3}, unk_token="<unk>"))
words.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", unk_token="<unk>")
batch = tokenizer(["a b", "a"], return_tensors="pt")  # broken, fails here
# fixed: batch = tokenizer(["a b", "a"], padding=True, return_tensors="pt")
print(batch["input_ids"].shape)
