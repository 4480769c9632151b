"""What a script does with its model once it is made is done to the model that is probed, or said not to be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from real_scripts import HEAD, LOOP, peak_of, probed, script

if TYPE_CHECKING:
    from pathlib import Path

ADAMW = "optimizer = torch.optim.AdamW(model.parameters())"
MADE = "model = Net()"
ALL = (256 * 384 + 384) + 4 * (384 * 384 + 384) + (384 * 7 + 7)
HEAD_ONLY = 384 * 7 + 7

WRAPPING = (
    "from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (\n"
    "    apply_activation_checkpointing, checkpoint_wrapper)"
)
WAYS = {
    "freezing in a loop": "for p in model.parameters():\n    p.requires_grad = False\nmodel.head = nn.Linear(384, 7)",
    "freezing by name": "for n, p in model.named_parameters():\n    if n[0] != 'h':\n        p.requires_grad_(False)",
    "freezing a part": "model.body.requires_grad_(False)",
    "freezing by hand": "model.first.weight.requires_grad = False\nmodel.head = nn.Linear(model.head.in_features, 7)",
    "a cast": "model = model.to(torch.bfloat16).float()",
    "a copy": "wide = 384\nmodel.head = nn.Linear(wide, 7)\nmodel = copy.deepcopy(model)",
}


@pytest.mark.parametrize("way", WAYS)
def test_the_estimate_is_what_the_script_really_takes(way: str, tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(script(MADE, WAYS[way], ADAMW))
    assert probed(path).allocated_bytes == pytest.approx(peak_of(path), rel=0.02)


def trained(told: object) -> int:
    """Values whose gradients are there at the end."""
    return getattr(told, "by_category")["optimizer"] // 8  # noqa: B009


BODY, FIRST = 4 * (384 * 384 + 384), 256 * 384 + 384
CASES = [
    ("model = Net().requires_grad_(False)\nmodel.head.requires_grad_(True)", HEAD_ONLY),
    ("model = Net()\nif True:\n    model.body.requires_grad_(False)", ALL - BODY),
    ("model = Net()\nif False:\n    model.body.requires_grad_(False)", ALL),
    ("model = torch.compile(Net().to('cpu'))\nmodel.body.requires_grad_(False)", ALL - BODY),
    ("model = nn.DataParallel(Net())", ALL),
    ("model = Net()\nbody = model.body\nfor p in body.parameters():\n    p.requires_grad = False", ALL - BODY),
    ("model = Net()\nfor layer in model.body[:2]:\n    layer.requires_grad_(False)", ALL - BODY // 2),
    ("model = Net()\nwith torch.no_grad():\n    model.first.eval().requires_grad_(False)", ALL - FIRST),
    ("def still(part):\n    part.requires_grad_(False)\nmodel = Net()\nstill(model.body)", ALL - BODY),
    ("model, other = Net(), 3\nsetattr(model, 'body', nn.Identity())", ALL - BODY),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "count"), CASES)
def test_what_is_trained_is_what_the_script_leaves_to_train(lines: str, count: int, tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(script(lines, ADAMW))
    assert trained(probed(path)) == pytest.approx(count, rel=0.001)


def test_each_line_that_is_followed_is_named(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(script(MADE, "model.body.requires_grad_(False)", "model.head = nn.Linear(384, 7)", ADAMW))
    assert (
        "the model is changed as the script does it: train.py:27 `model.body.requires_grad_(False)`, "
        "train.py:28 `model.head = nn.Linear(384, 7)`" in probed(path).assumptions
    )


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("model.head = nn.Linear(unknown(), 7)", "train.py:27 is not followed: `model.head = nn.Linear(unknown(), 7)`"),
        ("if unknown():\n    model.body.half()", "hangs on what only a run tells"),
        ("for p in model.parameters():\n    p.requires_grad = log(p)", "reaches beyond the model"),
    ],
)
def test_what_can_t_be_followed_is_said_with_its_line(lines: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(script(MADE, lines, ADAMW))
    assert any(said in text for text in probed(path).assumptions)


def test_what_is_compiled_or_spread_is_said_not_to_be_counted(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(
        script(MADE, "model = torch.compile(model)", "model = nn.parallel.DistributedDataParallel(model)", ADAMW)
    )
    told = probed(path).assumptions
    assert any("train.py:27 `torch.compile(model)`: figures are those of eager mode" in text for text in told)
    assert any("train.py:28" in text and "--sharding ddp" in text for text in told)


@pytest.mark.parametrize(
    "lines",
    [
        "for i, block in enumerate(model.body):\n    model.body[i] = checkpoint_wrapper(block)",
        "apply_activation_checkpointing(model, check_fn=lambda m: m in list(model.body))",
    ],
)
def test_blocks_that_the_script_wraps_are_recomputed(lines: str, tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(script(WRAPPING, MADE, lines, ADAMW))
    told = probed(path)
    assert [item.count for item in told.checkpointed] == [4]
    assert told.allocated_bytes == pytest.approx(peak_of(path), rel=0.02)


def test_what_shards_in_the_script_shards_where_the_number_of_ranks_is_known(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(
        script(
            "from torch.distributed.fsdp import fully_shard",
            MADE,
            "for layer in model.body:\n    fully_shard(layer)",
            "fully_shard(model)",
            ADAMW,
        )
    )
    alone, of_four = probed(path), probed(path, world_size=4)
    assert of_four.by_category["optimizer"] == pytest.approx(alone.by_category["optimizer"] / 4, rel=0.01)
    assert any("fully_shard 4 times on body.*" in text for text in of_four.assumptions)
    assert any("needs to know how many processes train this model together" in text for text in alone.assumptions)
    assert not any("not followed" in text for text in of_four.assumptions)


def test_what_wraps_for_ranks_in_the_script_wraps_where_their_number_is_known(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(script(MADE, "model = nn.parallel.DistributedDataParallel(model)", ADAMW))
    assert any("DistributedDataParallel keeps buckets" in text for text in probed(path, world_size=2).assumptions)


def test_a_builder_s_model_is_followed_to_its_caller_and_to_what_trains_it(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    text = f"""{HEAD}
def build():
    net = Net()
    net.body.requires_grad_(False)
    return net

def train(model):
    model.first.requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters())
{LOOP}
def main():
    network = build()
    network.head = nn.Linear(384, 11)
    train(network)

main()
"""
    path.write_text(text)
    assert trained(probed(path, "Net")) == pytest.approx(384 * 11 + 11, rel=0.001)


def test_a_method_of_the_model_that_freezes_is_run(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    frozen = (
        "    def freeze_body(self):\n        for p in self.body.parameters():\n            p.requires_grad = False\n\n"
    )
    path.write_text(
        script(MADE, "model.freeze_body()", ADAMW).replace("    def forward", f"{frozen}    def forward", 1)
    )
    assert trained(probed(path)) == pytest.approx(ALL - 4 * (384 * 384 + 384), rel=0.001)


def test_what_is_thawed_while_it_is_trained_is_said(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    loop = LOOP.replace(
        "        loss = ", "        if step == 1:\n            model.body.requires_grad_(True)\n        loss = "
    )
    path.write_text(script(MADE, "model.body.requires_grad_(False)", ADAMW, loop=loop))
    assert any("changes what is trained while it is" in text for text in probed(path).assumptions)


TRAINED_BY = """
import torch
from peft import LoraConfig
from transformers import GPT2Config, GPT2LMHeadModel
from trl import SFTConfig, SFTTrainer

model = GPT2LMHeadModel(GPT2Config(n_layer=2, n_embd=64, n_head=2, vocab_size=500, n_positions=64))
config = LoraConfig(r=4, target_modules=["c_attn"])
trainer = SFTTrainer(model, args=SFTConfig("out", gradient_checkpointing=True), peft_config=config)
trainer.train()
"""


def test_adapters_that_a_trainer_adds_are_added_and_its_own_loss_is_said(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(TRAINED_BY)
    told = probed(path, seq=32, batch=2)
    assert trained(told) == pytest.approx(2 * 4 * (64 + 3 * 64), rel=0.01)
    assert told.active
    assert "adapters are added as train.py:9 says" in told.assumptions
    assert "the loss is the model's own: what SFTTrainer computes in its place is not counted" in told.assumptions


def test_a_library_s_model_is_followed_through_its_own_methods(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(
        "import torch\nfrom transformers import GPT2Config, GPT2LMHeadModel\n\n"
        "model = GPT2LMHeadModel(GPT2Config(n_layer=2, n_embd=64, n_head=2, vocab_size=500, n_positions=64))\n"
        "for p in model.parameters():\n    p.requires_grad = False\n"
        "for p in model.get_input_embeddings().parameters():\n    p.requires_grad = True\n"
        "model.resize_token_embeddings(512)\n"
        "optimizer = torch.optim.AdamW(model.parameters())\n"
        "model(input_ids=ids, labels=ids).loss.backward()\noptimizer.step()\n"
    )
    assert trained(probed(path, seq=32, batch=2)) == 512 * 64
