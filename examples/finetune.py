"""Teach a causal language model to answer, with LoRA adapters.

    python finetune.py                                   # a tiny random model, seconds on a CPU, nothing is downloaded
    python finetune.py --model meta-llama/Llama-3.2-1B   # the real thing
    accelerate launch --config_file accelerate.yaml finetune.py --model meta-llama/Llama-3.2-1B
"""

from __future__ import annotations

import argparse

import torch
from accelerate import Accelerator
from peft import LoraConfig, get_peft_model
from torch import Tensor
from torch.utils.data import DataLoader
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    get_cosine_schedule_with_warmup,
)

PROMPT = "### Question:\n{question}\n\n### Answer:\n"
QUESTIONS = [(f"What is {a} plus {b}?", str(a + b)) for a in range(12) for b in range(12)]
PAD = 0


class Bytes:
    """Stands in for a tokenizer where no model is named: a byte is a token."""

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def decode(self, tokens: Tensor) -> str:
        return bytes(t for t in tokens.tolist() if t != PAD).decode(errors="replace")


def load(name: str | None) -> tuple[PreTrainedModel, Bytes | AutoTokenizer]:
    if name is None:
        config = LlamaConfig(
            vocab_size=256,
            hidden_size=64,
            intermediate_size=176,
            num_hidden_layers=3,
            num_attention_heads=4,
            bos_token_id=1,
            eos_token_id=10,
            pad_token_id=PAD,
        )
        return LlamaForCausalLM(config), Bytes()
    model = AutoModelForCausalLM.from_pretrained(name, dtype=torch.bfloat16)
    return model, AutoTokenizer.from_pretrained(name)


def example(tokenizer: Bytes | AutoTokenizer, question: str, answer: str) -> dict[str, list[int]]:
    """Only the answer is learnt: the prompt's labels are -100."""
    prompt = tokenizer.encode(PROMPT.format(question=question))
    reply = tokenizer.encode(answer + "\n")
    return {"input_ids": prompt + reply, "labels": [-100] * len(prompt) + reply}


def collate(examples: list[dict[str, list[int]]]) -> dict[str, Tensor]:
    longest = max(len(e["input_ids"]) for e in examples)

    def padded(key: str, filler: int) -> Tensor:
        return torch.tensor([e[key] + [filler] * (longest - len(e[key])) for e in examples])

    tokens = padded("input_ids", PAD)
    return {"input_ids": tokens, "attention_mask": (tokens != PAD).long(), "labels": padded("labels", -100)}


@torch.no_grad()
def answer(model: PreTrainedModel, tokenizer: Bytes | AutoTokenizer, question: str, device: torch.device) -> str:
    model.eval()
    prompt = torch.tensor([tokenizer.encode(PROMPT.format(question=question))], device=device)
    written = model.generate(
        input_ids=prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=8, do_sample=False
    )
    model.train()
    return tokenizer.decode(written[0, prompt.shape[1] :])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a model's name or folder; without it a tiny random Llama")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    args = parser.parse_args()
    torch.manual_seed(0)

    accelerator = Accelerator()
    model, tokenizer = load(args.model)
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": True})
    model = get_peft_model(
        model, LoraConfig(r=8, lora_alpha=16, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    )
    model.print_trainable_parameters()

    data = [example(tokenizer, question, reply) for question, reply in QUESTIONS]
    loader = DataLoader(data, batch_size=args.batch, shuffle=True, collate_fn=collate)
    trainable = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=args.learning_rate)
    steps = args.epochs * len(loader)
    schedule = get_cosine_schedule_with_warmup(optimizer, num_warmup_steps=steps // 10, num_training_steps=steps)
    model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)

    model.train()
    for epoch in range(args.epochs):
        for step, batch in enumerate(loader):
            loss = model(**batch).loss
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(trainable, 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            if step % 6 == 0:
                accelerator.print(f"epoch {epoch}  step {step:3d}  loss {loss.item():.3f}")
    unwrapped = accelerator.unwrap_model(model)
    accelerator.print(answer(unwrapped, tokenizer, "What is 2 plus 3?", accelerator.device))


if __name__ == "__main__":
    main()
