"""Models of users' files are found, made and given inputs; nothing else of a file runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from asking import LINEAR, failure, result, warm, write

from remat.probe.messages import Location

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from asking import Ask

GPT = """
    from dataclasses import dataclass
    import torch
    import a_tracker_that_is_not_installed
    from torch import nn
    from torch.nn import functional as F

    text = open("corpus.txt").read()

    @dataclass
    class Config:
        block_size: int = 64
        vocab_size: int = 512
        width: int = 32

    class GPT(nn.Module):
        def __init__(self, config):
            super().__init__()
            self.config = config
            self.tokens = nn.Embedding(config.vocab_size, config.width)
            self.positions = nn.Embedding(config.block_size, config.width)
            self.head = nn.Linear(config.width, config.vocab_size)

        def forward(self, idx, targets=None):
            b, t = idx.size()
            x = self.tokens(idx) + self.positions(torch.arange(t, device=idx.device))
            logits = self.head(x)
            loss = None if targets is None else F.cross_entropy(logits.flatten(0, 1), targets.flatten())
            return logits, loss

    model = GPT(Config(width=64))
    open("ran", "w").close()
    for step in range(1000000):
        model(torch.zeros(1, 1, dtype=torch.long))[0].sum().backward()
"""


@pytest.fixture(scope="module", name="ask")
def one_worker() -> Iterator[Ask]:
    yield from warm()


def test_a_training_script_s_model_is_probed_and_its_training_never_runs(tmp_path: Path, ask: Ask) -> None:
    write(tmp_path, train=GPT)
    found = result(ask(tmp_path, "train.py:GPT"))
    assert found.by_category["parameters"] == 4 * (512 * 64 + 64 * 64 + 64 * 512 + 512)  # Config(width=64), as it says
    assert "inputs: idx: int[batch, seq], targets: int[batch, seq]" in found.assumptions
    assert "sequences of 64 (--seq)" in found.assumptions
    assert not (tmp_path / "ran").exists()


def test_a_variable_of_a_script_is_a_target_too(tmp_path: Path, ask: Ask) -> None:
    write(tmp_path, train=GPT)
    assert result(ask(tmp_path, "train.py:model")).by_category["parameters"] == 4 * (512 * 64 * 2 + 64 * 64 + 512)


def test_an_argument_without_default_is_named_with_the_line_to_add(tmp_path: Path, ask: Ask) -> None:
    write(tmp_path, net=LINEAR.replace("(self):", "(self, width, depth=2):"))
    said = failure(ask(tmp_path, "net.py:Net"))
    assert said.missing is not None
    assert "`width` of `Net(…)`" in said.missing.fact
    assert said.missing.how == f"add above line 4 of {tmp_path / 'net.py'}: # remat: probe(model=Net(width=…))"
    assert said.location is not None
    assert said.location.line == 4


def test_the_line_that_was_asked_for_is_enough(tmp_path: Path, ask: Ask) -> None:
    text = LINEAR.replace("(self):", "(self, width):").replace("nn.Linear(8, 8)", "nn.Linear(width, width)")
    write(tmp_path, net=text.replace("class Net", "# remat: probe(model=Net(width=16), batch=4)\nclass Net"))
    found = result(ask(tmp_path, "net.py"))
    assert found.by_category["parameters"] == 4 * (16 * 16 + 16)
    assert "inputs: x: float[batch, 16]" in found.assumptions


def test_arguments_are_taken_from_where_the_project_makes_the_model(tmp_path: Path, ask: Ask) -> None:
    write(
        tmp_path,
        layers_of_project=LINEAR.replace("(self):", "(self, width):").replace(
            "nn.Linear(8, 8)", "nn.Linear(width, width)"
        ),
        train_of_project="""
            import argparse
            from layers_of_project import Net

            def main():
                parser = argparse.ArgumentParser()
                parser.add_argument("--width", type=int, default=24)
                parser.add_argument("--data", required=True)
                args = parser.parse_args()
                model = Net(args.width).cuda()

            main()
        """,
    )
    found = result(ask(tmp_path, "layers_of_project.py:Net"))
    assert found.by_category["parameters"] == 4 * (24 * 24 + 24)
    assert f"Net is made as at {tmp_path / 'train_of_project.py'}:9" in found.assumptions


def test_the_size_of_images_follows_from_the_layer_that_takes_them_flat(tmp_path: Path, ask: Ask) -> None:
    write(
        tmp_path,
        net="""
            import torch
            from torch import nn

            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.conv = nn.Conv2d(3, 4, 3, padding=1)
                    self.out = nn.Linear(4 * 32 * 32, 10)

                def forward(self, image):
                    return self.out(torch.flatten(self.conv(image), 1))
        """,
    )
    assert "images of 32x32 (image= in a probe comment)" in result(ask(tmp_path, "net.py:Net")).assumptions


def test_inputs_that_can_t_be_found_out_are_asked_for_by_name(tmp_path: Path, ask: Ask) -> None:
    write(tmp_path, net=LINEAR.replace("self.linear(x)", "self.linear(x.adjacency)"))
    said = failure(ask(tmp_path, "net.py:Net"))
    assert said.missing is not None
    assert "what `x` of `Net.forward` looks like" in said.missing.fact
    assert '# remat: probe(inputs={"x": torch.randn(batch, …)})' in said.missing.how


def test_remat_probe_py_says_everything_itself(tmp_path: Path, ask: Ask) -> None:
    write(
        tmp_path,
        layers=LINEAR,
        remat_probe="""
            import torch
            from layers import Net

            def build():
                return Net()

            def batch(batch_size):
                return {"x": torch.randn(batch_size, 8)}

            def loss(output, batch):
                return (output - batch["x"]).square().mean()

            def optimizer(parameters):
                return torch.optim.SGD(parameters, 0.1)
        """,
    )
    found = result(ask(tmp_path, "layers.py", batch=3))
    assert "optimizer" not in {name for name, size in found.by_category.items() if size}


def test_a_hugging_face_folder_needs_only_its_config(tmp_path: Path, ask: Ask) -> None:
    _gpt2(tmp_path / "model")
    found = result(ask(tmp_path, "hf:model", seq=16))
    assert "inputs: input_ids: int[batch, seq], labels: int[batch, seq]" in found.assumptions


def test_a_from_pretrained_call_is_a_target_by_its_line(tmp_path: Path, ask: Ask) -> None:
    _gpt2(tmp_path / "model")
    write(
        tmp_path,
        train="""
            from transformers import AutoModelForCausalLM

            def main():
                name = "model"
                model = AutoModelForCausalLM.from_pretrained(name)
        """,
    )
    found = result(ask(tmp_path, "train.py:5", seq=16))
    assert "pretrained weights of model are left out: the model is made from its config.json" in found.assumptions


SCRIPT = """
    import argparse
    from peft import LoraConfig, get_peft_model
    from transformers import LlamaConfig, LlamaForCausalLM

    def build(layers):
        size = dict(hidden_size=32, intermediate_size=64, num_attention_heads=2, vocab_size=64)
        config = LlamaConfig(num_hidden_layers=layers, **size)
        model = LlamaForCausalLM(config)
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        return model

    def main():
        parser = argparse.ArgumentParser()
        parser.add_argument("--layers", type=int, default=3)
        args = parser.parse_args()
        model = build(args.layers)
        model.train()
        open("ran", "w").close()

    if __name__ == "__main__":
        main()
"""
ADAPTERS = SCRIPT.replace(
    "        model.train()", "        model = get_peft_model(model, LoraConfig(r=4, target_modules=['q_proj']))"
)


def test_a_script_without_classes_is_probed_where_it_makes_its_model(tmp_path: Path, ask: Ask) -> None:
    write(tmp_path, train=SCRIPT)
    found = result(ask(tmp_path, "train.py"))
    assert [(one.class_name, one.count) for one in found.checkpointed] == [("LlamaDecoderLayer", 3)]
    assert not (tmp_path / "ran").exists()


def test_a_script_that_adds_adapters_is_probed_with_them(tmp_path: Path, ask: Ask) -> None:
    write(tmp_path, plain=SCRIPT, tune=ADAPTERS)
    plain, tuned = result(ask(tmp_path, "plain.py")), result(ask(tmp_path, "tune.py"))
    assert tuned.by_category["optimizer"] < plain.by_category["optimizer"] / 10
    assert [(one.class_name, one.count) for one in tuned.checkpointed] == [("LlamaDecoderLayer", 3)]


def test_a_model_that_a_branch_makes_has_the_names_of_that_branch(tmp_path: Path, ask: Ask) -> None:
    text = """
        from torch import nn

        def load(name=None):
            if name is None:
                width = 8
                return nn.Linear(width, 2), "words"
            elif name == "large":
                width = 512
                model = nn.Linear(width, 2)
            return model, name
    """
    write(tmp_path, tune=text)
    small, large = (result(ask(tmp_path, f"tune.py:{line}")) for line in (6, 9))
    assert [found.by_category["parameters"] for found in (small, large)] == [4 * (8 * 2 + 2), 4 * (512 * 2 + 2)]


def test_of_several_models_that_a_script_makes_the_lines_are_named(tmp_path: Path, ask: Ask) -> None:
    write(
        tmp_path,
        gan="from torch import nn\ncritic = nn.Linear(4, 1)\nmaker = nn.Sequential(nn.Linear(1, 4)).to('cuda')\n",
    )
    told = failure(ask(tmp_path, "gan.py"))
    assert told.missing is not None
    assert told.missing.how == "say which: gan.py:2 (critic), gan.py:3 (maker)"
    assert result(ask(tmp_path, "gan.py:2")).allocated_bytes


def test_a_model_whose_name_only_an_option_gives_is_asked_for(tmp_path: Path, ask: Ask) -> None:
    text = """
        import argparse
        from transformers import AutoModelForCausalLM
        parser = argparse.ArgumentParser()
        parser.add_argument("--model")
        args = parser.parse_args()
        model = AutoModelForCausalLM.from_pretrained(args.model)
    """
    write(tmp_path, tune=text)
    told = failure(ask(tmp_path, "tune.py"))
    assert "AutoModelForCausalLM.from_pretrained is None here" in told.message
    assert told.location == Location(str(tmp_path / "tune.py"), 6)
    assert told.missing is not None
    assert '# remat: probe(args="--model NAME")' in told.missing.how


def test_a_name_that_is_not_in_the_cache_says_what_to_do(tmp_path: Path, ask: Ask) -> None:
    said = failure(ask(tmp_path, "hf:nobody/no-such-model"))
    assert said.missing is not None
    assert said.missing.fact.startswith("no config.json for nobody/no-such-model in the local cache")
    assert "hf download nobody/no-such-model config.json" in said.missing.how


def test_a_package_that_is_needed_and_missing_is_named_with_its_line(tmp_path: Path, ask: Ask) -> None:
    write(tmp_path, net="import no_such_layers\n" + LINEAR.replace("nn.Linear(8, 8)", "no_such_layers.Fast(8, 8)"))
    said = failure(ask(tmp_path, "net.py:Net"))
    assert said.missing is not None
    assert said.missing.fact.startswith("`no_such_layers`, which ")
    assert said.location is not None
    assert said.location.line == 1


def test_a_name_that_the_file_does_not_have_is_said_with_those_it_has(tmp_path: Path, ask: Ask) -> None:
    write(tmp_path, net=LINEAR)
    said = failure(ask(tmp_path, "net.py:Nett"))
    assert said.missing is not None
    assert said.missing.how == "it has Net"


def test_drop_path_rates_read_from_a_tensor_have_their_values(tmp_path: Path, ask: Ask) -> None:
    rates = "[r.item() for r in torch.linspace(0, 0.5, 2)]"
    write(tmp_path, net=LINEAR.replace("nn.Linear(8, 8)", f"nn.Linear(8, 8 + int({rates}[1] * 2))"))
    assert result(ask(tmp_path, "net.py:Net")).by_category["parameters"] == 4 * (8 * 9 + 9)


def _gpt2(folder: Path) -> None:
    folder.mkdir()
    config = {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_layer": 2, "n_embd": 32, "n_head": 2}
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
