"""A script that trains says by itself what its batch, its autocast and its optimizer are, and how its model is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from asking import LINEAR, ask, failure, write

from remat.probe.answering import Answers
from remat.probe.built import FactMissingError
from remat.probe.messages import Request, Variant, VariantResult
from remat.probe.target.resolve import resolve

if TYPE_CHECKING:
    from pathlib import Path

    from remat.probe.built import Built

SCRIPT = """
import argparse
import torch
from torch import nn
from torch.utils.data import DataLoader

class Net(nn.Module):
    def __init__(self, width=8, depth=1):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=48)
    parser.add_argument("--depth", type=int, default=3)
    args = parser.parse_args()
    net = Net(width=16, depth=args.depth)
    {lines}
    for x in train_loader:
        loss = net(x).mean()
        loss.backward()

if __name__ == "__main__":
    main()
"""
LOADER = "train_loader = DataLoader(data, args.batch_size, shuffle=True)"


def built(folder: Path, *lines: str) -> Built:
    (folder / "train.py").write_text(SCRIPT.format(lines="\n    ".join(lines)))
    return resolve("train.py", str(folder))


def answer(target: Built, **settings: object) -> VariantResult:
    variant = Variant("v", **settings)  # type: ignore[arg-type]
    (event,) = Answers(target, Request("train.py", (variant,))).of(variant, target, lambda: None)
    assert isinstance(event, VariantResult)
    return event


def test_the_model_is_made_and_fed_as_the_script_does_it(tmp_path: Path) -> None:
    told = answer(built(tmp_path, LOADER))
    assert told.batch == 48
    assert told.by_category["parameters"] == 3 * (16 * 16 + 16) * 4
    assert any("Net is made as at" in text and "train.py:22" in text for text in told.assumptions)
    assert "a batch of 48, as train.py:23 says (--batch)" in told.assumptions


def test_what_is_asked_for_wins_over_the_script(tmp_path: Path) -> None:
    script = built(tmp_path, LOADER, 'cast = torch.autocast("cuda", torch.bfloat16)')
    assert script.autocast == "bf16"
    told = answer(script, batch=2, autocast="none", optimizer="sgd")
    assert told.batch == 2
    assert not any("autocast" in text or "train.py:23" in text for text in told.assumptions)


def test_a_comment_wins_over_the_script(tmp_path: Path) -> None:
    told = answer(built(tmp_path, LOADER, "# remat: probe(batch=4, optimizer='sgd')", "opt = torch.optim.Adam(net)"))
    assert told.batch == 4
    assert "optimizer" not in told.by_category


@pytest.mark.parametrize(
    ("line", "autocast"),
    [
        ('with torch.autocast("cuda", dtype=torch.bfloat16): pass', "bf16"),
        ('with torch.autocast("cuda"): pass', "fp16"),
        ("with torch.cuda.amp.autocast(): pass", "fp16"),
        ("with torch.amp.autocast(device_type='cuda', dtype=torch.float16, enabled=True): pass", "fp16"),
        ("with torch.amp.autocast('cuda', dtype=torch.bfloat16, enabled=False): pass", None),
        ("with torch.autocast('cpu', dtype=torch.bfloat16): pass", None),
        ("accelerator = Accelerator(mixed_precision='bf16')", "bf16"),
        ("accelerator = Accelerator(mixed_precision='no')", None),
        ("settings = TrainingArguments('out', bf16=True, per_device_train_batch_size=4)", "bf16"),
        ("settings = TrainingArguments('out', fp16=False)", None),
        ("dtype = {'half': torch.float16}['half']\n    cast = torch.autocast('cuda', dtype=dtype)", "fp16"),
        ("with torch.autocast('cuda', dtype=unknown()): pass", None),
        ("with torch.autocast('cuda', torch.bfloat16, enabled=unknown()): pass", None),
        ("with torch.cuda.amp.autocast(False): pass", None),
        ("with torch.cuda.amp.autocast(True, torch.bfloat16): pass", "bf16"),
        ("with torch.cpu.amp.autocast(): pass", None),
        ("with accelerator.autocast(): pass", None),
        ("settings = ModelConfig(bf16=True)", None),
        ("use = False\n    if use: cast = torch.autocast('cuda')", None),
        ("use = True\n    if use: cast = torch.autocast('cuda')", "fp16"),
        ("if unknown(): cast = torch.autocast('cuda')", None),
        ("cast = torch.autocast('cuda', enabled=torch.cuda.is_available())", "fp16"),
        (
            "on = 'cuda' if torch.cuda.is_available() else 'cpu'\n    cast = torch.autocast(on, torch.bfloat16)",
            "bf16",
        ),
        ("settings = TrainingArguments('out', bf16=torch.cuda.is_bf16_supported())", "bf16"),
        ("use = False\n    cast = torch.autocast('cuda') if use else None", None),
        ("def evaluate():\n        with torch.autocast('cuda'): pass", None),
        ("@torch.no_grad()\n    def show():\n        with torch.autocast('cuda'): pass", None),
        ("a = torch.autocast('cuda', torch.bfloat16); b = torch.autocast('cuda', torch.float16)", None),
        ("", None),
    ],
)
def test_its_autocast_is_the_one_it_enters(line: str, autocast: str | None, tmp_path: Path) -> None:
    assert built(tmp_path, LOADER, line).autocast == autocast


@pytest.mark.parametrize(
    ("line", "optimizer"),
    [
        ("opt = torch.optim.AdamW(net.parameters(), lr=1e-3)", "adamw"),
        ("opt = torch.optim.AdamW(net.parameters(), fused=True)", "adamw-fused"),
        ("opt = torch.optim.Adam(net.parameters(), foreach=False)", "adam-forloop"),
        ("opt = torch.optim.SGD(net.parameters(), 0.1)", "sgd"),
        ("opt = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)", "sgd-momentum"),
        ("opt = torch.optim.SGD(net.parameters(), 0.1, momentum=0)", "sgd"),
        ("opt = torch.optim.SGD(net.parameters(), 0.1, 0.9)", "sgd-momentum"),
        ("opt = torch.optim.SGD(net.parameters(), 0.1, momentum=unknown())", "sgd-momentum"),
        ("opt = torch.optim.AdamW(net.parameters(), amsgrad=True)", None),
        ("opt = bnb.optim.AdamW8bit(net.parameters())", "adamw-8bit"),
        ("settings = TrainingArguments('out', optim='adamw_torch_fused')", "adamw-fused"),
        ("a = torch.optim.Adam(net.parameters()); b = torch.optim.Adam(net.parameters())", "adam"),
        ("a = torch.optim.Adam(net.parameters()); b = torch.optim.SGD(net.parameters())", None),
        ("", None),
    ],
)
def test_its_optimizer_is_the_one_it_makes(line: str, optimizer: str | None, tmp_path: Path) -> None:
    assert built(tmp_path, LOADER, line).optimizer == optimizer


def test_an_optimizer_without_a_name_here_is_made_as_the_script_makes_it(tmp_path: Path) -> None:
    told = answer(built(tmp_path, LOADER, "opt = torch.optim.NAdam(net.parameters())"))
    assert "the optimizer is NAdam, as train.py:24 makes it (--optimizer)" in told.assumptions


@pytest.mark.parametrize(
    ("loaders", "batch"),
    [
        (["test_loader = DataLoader(data, 5)", "train_loader = DataLoader(data, batch_size=6)"], 6),
        (["loader = DataLoader(data, 5)", "other = DataLoader(data, 6, shuffle=True)"], 6),
        (["loader = DataLoader(data, 5)"], 5),
        (["loader = DataLoader(data, 5)", "other = DataLoader(data, 6)"], None),
        (["loader = DataLoader(data, batch_size=size_of(data))"], None),
        (["settings = TrainingArguments('out', per_device_train_batch_size=7)"], 7),
        (["batch_size = 9"], 9),
        (["batch_size: int = 9"], 9),
        (["batch_size: int = 9", "train_batch_size = 10"], None),
        (["batch_size = 9", "train_batch_size = 10"], None),
        (["batch_size = 9", "loader = DataLoader(data, 5)"], 5),
        (["batch_size = 9", "batch_size //= 3"], None),
        (["batch_size, length = 9, 4"], 9),
        (["class Config: batch_size: int = 9"], None),
        (["class Config: batch_size: int = 9", "config = Config()"], 9),
        (["class Config: batch_size: int = 9", "config = Config(batch_size=7)"], 7),
        (["class Config: batch_size: int = 9", "config = Config(batch_size=unknown())"], None),
        (["test_loader = DataLoader(data, 5)"], None),
        (["constrained_val = DataLoader(data, 5)", "other = DataLoader(data, 6)"], 6),
        (["train_loader = DataLoader(data, size_of(data))", "loader = DataLoader(data, 6)"], None),
        (["def evaluate(): return DataLoader(data, 5)", "batch_size = 9"], 9),
    ],
)
def test_its_batch_is_that_of_the_loader_it_trains_from(loaders: list[str], batch: int | None, tmp_path: Path) -> None:
    target = built(tmp_path, *loaders)
    assert answer(target).batch == (batch or 8)


def test_a_file_that_does_not_train_says_nothing_and_its_model_has_its_defaults(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(SCRIPT.format(lines=LOADER).replace("loss.backward()", "print(loss)"))
    told = answer(resolve("net.py:Net", str(tmp_path)))
    assert told.by_category["parameters"] == (8 * 8 + 8) * 4
    assert "Net is made with its defaults: width=8, depth=1" in told.assumptions


def test_a_function_that_trains_is_not_run_but_the_line_in_it_that_makes_the_model_is_named(tmp_path: Path) -> None:
    built(tmp_path, LOADER)
    with pytest.raises(FactMissingError, match="what `main` trains") as error:
        resolve("train.py:main", str(tmp_path))
    assert error.value.how.endswith("train.py:22")


TOKENS = """
import torch
from torch import nn

block_size = 48

class Net(nn.Module):
    def __init__(self, words=100):
        super().__init__()
        self.words = nn.Embedding(words, 8)

    def forward(self, tokens):
        return self.words(tokens)

net = Net()
net(batch()).mean().backward()
"""


def test_its_sequences_are_as_long_as_it_says(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TOKENS)
    told = answer(resolve("train.py", str(tmp_path)))
    assert told.seq == 48
    assert "sequences of 48, as train.py:5 says (--seq)" in told.assumptions
    asked_for = answer(resolve("train.py", str(tmp_path)), seq=32)
    assert asked_for.seq == 32
    assert not any("(--seq)" in text for text in asked_for.assumptions)


def test_the_length_of_what_is_generated_is_not_that_of_training(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TOKENS + "\ngeneration = GenerationConfig(max_length=20)\n")
    assert answer(resolve("train.py", str(tmp_path))).seq == 48


def test_a_builder_that_fits_a_scaler_is_no_training(tmp_path: Path) -> None:
    (tmp_path / "build.py").write_text(
        "from torch import nn\n\ndef build():\n    Scaler().fit([1])\n    return nn.Linear(4, 4)\n\n"
        "class Scaler:\n    def fit(self, data):\n        return self\n"
    )
    assert answer(resolve("build.py:build", str(tmp_path))).by_category["parameters"] == 80


def test_a_length_says_nothing_of_what_has_none(tmp_path: Path) -> None:
    told = answer(built(tmp_path, LOADER, "block_size = 64"))
    assert not any("(--seq)" in text for text in told.assumptions)


def test_what_a_function_is_called_with_wins_over_its_defaults(tmp_path: Path) -> None:
    script = SCRIPT.replace("def main():", "def main(size=5, *, wide=4):").replace("    main()", "    main(7, wide=32)")
    (tmp_path / "train.py").write_text(
        script.format(lines="train_loader = DataLoader(data, size)").replace("width=16", "width=wide")
    )
    told = answer(resolve("train.py", str(tmp_path)))
    assert told.batch == 7
    assert told.by_category["parameters"] == 3 * (32 * 32 + 32) * 4


@pytest.mark.parametrize(
    "line",
    ["os.unlink({file!r})", "os.replace({file!r}, 'other')", "shutil.rmtree({folder!r})", "np.save({file!r}, 1)"],
)
def test_nothing_that_a_file_does_at_its_top_to_other_files_is_done(line: str, tmp_path: Path) -> None:
    precious = tmp_path / "precious.txt"
    precious.write_text("all of it")
    text = "import os, shutil\nimport numpy as np\n" + line.format(file=str(precious), folder=str(tmp_path)) + SCRIPT
    (tmp_path / "train.py").write_text(text.format(lines=LOADER))
    assert answer(resolve("train.py", str(tmp_path))).batch == 48
    assert precious.read_text() == "all of it"


def test_a_model_that_deletes_files_as_it_is_made_is_stopped(tmp_path: Path) -> None:
    precious = tmp_path / "precious.txt"
    precious.write_text("all of it")
    write(
        tmp_path,
        deleting=LINEAR.replace("super().__init__()", f"super().__init__(); import os; os.unlink({str(precious)!r})"),
    )
    said = failure(ask(tmp_path, "deleting.py:Net"))
    assert "deletes, moves and cuts no files" in said.message
    assert precious.read_text() == "all of it"


def test_training_that_a_model_is_made_by_is_not_run(tmp_path: Path) -> None:
    script = """
    import torch
    from torch import nn

    def search():
        warm = nn.Linear(2, 2)
        open("ran", "a").close()
        warm(torch.ones(1, 2)).sum().backward()
        return 8

    net = nn.Linear(search(), 4)
    """
    write(tmp_path, hidden=script)
    said = failure(ask(tmp_path, "hidden.py:net"))
    assert said.missing is not None
    assert "making it runs training" in said.missing.fact
    assert "hidden.py:7" in said.missing.fact


def test_a_model_that_a_runner_makes_is_made_as_there_or_what_it_has_is_said(tmp_path: Path) -> None:
    runner = """
class Runner:
    def __init__(self):
        self.net = Net(width=32, depth=2)

    def run(self):
        self.net(torch.ones(1, 32)).sum().backward()
"""
    head = SCRIPT[: SCRIPT.index("def main")]
    (tmp_path / "train.py").write_text(head + runner)
    assert answer(resolve("train.py:Net", str(tmp_path))).by_category["parameters"] == 2 * (32 * 32 + 32) * 4


@pytest.mark.parametrize(
    "line",
    [
        "cast = torch.autocast('cuda', enabled=train_loader.fast)",
        "if unknown(): cast = torch.autocast('cuda')",
        "settings = TrainingArguments('out', bf16=unknown())",
        "with torch.autocast('cuda', dtype=unknown()): pass",
    ],
)
def test_an_autocast_that_only_a_run_decides_on_is_said_not_to_be_counted(line: str, tmp_path: Path) -> None:
    told = answer(built(tmp_path, LOADER, line))
    said = "no autocast is counted: whether train.py:24 runs forward under it, only a run tells (--autocast)"
    assert said in told.assumptions
    assert said not in answer(built(tmp_path, LOADER, line), autocast="bf16").assumptions


def test_of_several_calls_the_one_is_meant_whose_parameters_are_trained(tmp_path: Path) -> None:
    tried = SCRIPT.replace("    net = Net(", "    tried = Net(width=4)\n    print(tried)\n    net = Net(")
    (tmp_path / "train.py").write_text(tried.format(lines="opt = torch.optim.SGD(net.parameters(), 0.1)"))
    told = answer(resolve("train.py", str(tmp_path)), batch=2)
    assert told.by_category["parameters"] == 3 * (16 * 16 + 16) * 4
    assert any("train.py:24" in text and "is made as at" in text for text in told.assumptions)


def test_the_gpu_that_a_script_asks_for_is_there_while_its_lines_are_read_and_no_longer(tmp_path: Path) -> None:
    body = "found = torch.cuda.is_available()\n\ndef main():"
    lines = "cast = torch.autocast('cuda', torch.bfloat16, enabled=found)"
    (tmp_path / "train.py").write_text(SCRIPT.replace("def main():", body).format(lines=lines))
    script = resolve("train.py", str(tmp_path))
    assert script.autocast == "bf16"
    assert not torch.cuda.is_available()


@pytest.mark.parametrize(
    "line",
    [
        "cast = torch.autocast('cuda', enabled=args.depth > 9)",
        "if args.depth > 9: cast = torch.autocast('cuda')",
        "settings = TrainingArguments('out', bf16=args.depth > 9)",
    ],
)
def test_an_autocast_that_the_script_leaves_off_is_not_spoken_of(line: str, tmp_path: Path) -> None:
    told = answer(built(tmp_path, LOADER, line)).assumptions
    assert not any(text.startswith(("no autocast", "forward runs")) for text in told)


def test_the_loss_that_is_taken_is_said_where_a_comment_spells_the_inputs_too(tmp_path: Path) -> None:
    told = answer(built(tmp_path, LOADER, "# remat: probe(inputs=(batch, 16))")).assumptions
    assert any(text.startswith("the loss is cross-entropy over the output [batch, 16]") for text in told)
