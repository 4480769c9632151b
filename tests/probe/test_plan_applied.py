"""A plan that was written into the code makes the model need what the probe said it would."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING

import pytest
from asking import result, warm, write

from remat.finding import apply_edits
from remat.lint.check import check
from remat.lint.rule import Context
from remat.plan.plan import Blocks, Place, Plan, Written
from remat.plan.write import write as write_plan
from remat.versions import Versions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from asking import Ask

    from remat.probe.messages import VariantResult

BLOCK = """\
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x, scale=1.0):
        return x + scale * self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


# remat: probe(batch=8, seq=64)
class Tower(nn.Module):
    def __init__(self, vocabulary=100, width=64, depth=4):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList([Block(width) for _ in range(depth)])
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids):
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x, scale=0.5)
        return self.head(x)
"""
SEQUENCE = BLOCK.replace(
    "nn.ModuleList([Block(width) for _ in range(depth)])", "nn.Sequential(*(Block(width) for _ in range(depth)))"
).replace("        for block in self.blocks:\n            x = block(x, scale=0.5)\n", "        x = self.blocks(x)\n")
TWO = BLOCK.replace(
    "        self.head", "        self.more = nn.ModuleList([Block(width) for _ in range(3)])\n        self.head", 1
).replace(
    "        return self.head(x)",
    "        for block in self.more:\n            x = block(x)\n        return self.head(x)",
)
LLAMA = """\
import torch
from transformers import AutoModelForCausalLM, LlamaConfig

# remat: probe(batch=4, seq=64)
config = LlamaConfig(
    hidden_size=64, intermediate_size=128, num_hidden_layers=4, num_attention_heads=4, vocab_size=200, use_cache=False
)
model = AutoModelForCausalLM.from_config(config)
optimizer = torch.optim.AdamW(model.parameters())
for batch in batches:
    model(**batch).loss.backward()
    optimizer.step()
"""
TRAINER = """\
from transformers import AutoModelForCausalLM, LlamaConfig, Trainer, TrainingArguments

# remat: probe(batch=4, seq=64)
config = LlamaConfig(
    hidden_size=64, intermediate_size=128, num_hidden_layers=4, num_attention_heads=4, vocab_size=200, use_cache=False
)
model = AutoModelForCausalLM.from_config(config)
Trainer(model, TrainingArguments("out"), train_dataset=data).train()
"""
WHERE = {BLOCK: "Tower", SEQUENCE: "Tower", TWO: "Tower", LLAMA: "8", TRAINER: "7"}
CONTEXT = Context(Versions.parse(f"transformers={version('transformers')}"))


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    yield from warm()


def blocks_of(result: VariantResult) -> tuple[Blocks, ...]:
    """As the panel says them to the server."""
    total = {one.module: sum(m.count for m in result.by_module if m.module == one.module) for one in result.by_module}
    return tuple(Blocks(one.module, one.count, total[one.module]) for one in result.checkpointed)


@pytest.mark.parametrize("way", ["all", "every-2", "first-3", "selective"])
@pytest.mark.parametrize("text", [BLOCK, SEQUENCE, TWO], ids=["loop", "sequence", "two lists"])
def test_the_edited_model_needs_what_the_variant_was_said_to_need(
    tmp_path: Path, ask: Ask, text: str, way: str
) -> None:
    check_applied(tmp_path, ask, text, way)


@pytest.mark.parametrize("way", ["all", "every-3", "selective"])
def test_transformers_switch_on_the_next_line_does_as_the_probe_said(tmp_path: Path, ask: Ask, way: str) -> None:
    check_applied(tmp_path, ask, LLAMA, way)


def test_the_trainer_s_arguments_switch_it_on_as_the_probe_said(tmp_path: Path, ask: Ask) -> None:
    check_applied(tmp_path, ask, TRAINER, "all")


@pytest.mark.parametrize("way", ["none", "every-2", "first-3", "selective"])
@pytest.mark.parametrize("text", [BLOCK, SEQUENCE, TWO], ids=["loop", "sequence", "two lists"])
def test_a_plan_in_place_of_another_needs_what_its_variant_was_said_to_need(
    tmp_path: Path, ask: Ask, text: str, way: str
) -> None:
    lists = (Blocks("blocks.*", 4, 4), *([Blocks("more.*", 3, 3)] if text is TWO else []))
    outcome = write_plan(text, Place("Tower"), Plan("all", lists), CONTEXT)
    assert isinstance(outcome, Written)
    check_applied(tmp_path, ask, apply_edits(text, outcome.edits), way, "Tower")


SWITCHED = LLAMA.replace(
    "optimizer =",
    'model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})\noptimizer =',
)


@pytest.mark.parametrize("way", ["none", "every-3", "selective"])
def test_a_switch_that_is_turned_otherwise_does_as_the_probe_said(tmp_path: Path, ask: Ask, way: str) -> None:
    check_applied(tmp_path, ask, SWITCHED, way, "8")


def check_applied(folder: Path, ask: Ask, text: str, way: str, where: str | None = None) -> None:
    """Where the code checkpoints already, the plan takes the place of that."""
    name, is_changed = f"model_{abs(hash((text, way)))}", where is not None  # the worker loads each file once
    where = where or WHERE[text]
    write(folder, **{name: text})
    planned = result(ask(folder, f"{name}.py:{where}", checkpointing=way))
    before = result(ask(folder, f"{name}.py:{where}"))
    assert (planned.allocated_bytes >= before.allocated_bytes) == is_changed
    place = Place(None, int(where)) if where.isdecimal() else Place(where)
    outcome = write_plan(text, place, Plan(way, blocks_of(before if way == "none" else planned)), CONTEXT)
    assert isinstance(outcome, Written), outcome
    edited = apply_edits(text, outcome.edits)
    assert check(edited, CONTEXT) == []
    write(folder, **{f"{name}_edited": edited})
    if where.isdecimal():  # the line that makes the model, wherever it is now
        where = str(edited.splitlines().index(text.splitlines()[int(where) - 1]) + 1)
    after = result(ask(folder, f"{name}_edited.py:{where}"))
    assert after.active == (way != "none"), edited
    assert after.allocated_bytes == planned.allocated_bytes, edited
    assert after.checkpointed == planned.checkpointed
