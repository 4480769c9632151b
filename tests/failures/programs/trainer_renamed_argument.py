"""An argument of TrainingArguments has another name since transformers 4.46."""
# run: python trainer_renamed_argument.py
# cause: hf.renamed_argument
# says: evaluation_strategy
# fix-says: eval_strategy

from transformers import TrainingArguments

arguments = TrainingArguments(  # fails here
    output_dir="out",
    # fixed: eval_strategy="steps",
    evaluation_strategy="steps",  # broken
    report_to=[],
)
print(arguments.eval_strategy)
