"""A tokenizer without padding token is asked to pad."""
# run: python tokenizer_without_padding_token.py
# cause: hf.no_pad_token
# fix-says: tokenizer.pad_token = tokenizer.eos_token

from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

words = Tokenizer(models.WordLevel({"a": 0, "b": 1, "<eos>": 2, "<unk>": 3}, unk_token="<unk>"))
words.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, eos_token="<eos>", unk_token="<unk>")
# fixed: tokenizer.pad_token = tokenizer.eos_token
batch = tokenizer(["a b", "a"], padding=True)  # fails here
print(batch["input_ids"])
