"""The best model is to be loaded at the end, and saving and evaluating do not happen together."""
# run: python trainer_best_model_strategies.py
# cause: hf.best_model_strategy
# fix-says: save_strategy

from transformers import TrainingArguments

arguments = TrainingArguments(  # fails here
    output_dir="out",
    eval_strategy="epoch",
    save_strategy="steps",  # broken
    # fixed: save_strategy="epoch",
    load_best_model_at_end=True,
    report_to=[],
)
print(arguments.save_strategy)
