"""What a script draws itself and gives its model says its batch, its sequence and its pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from real_scripts import probed

if TYPE_CHECKING:
    from pathlib import Path

PICTURES = "nn.Sequential(nn.Conv2d(3, 8, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4))"
ROWS = "nn.Linear(32, 4)"
WORDS = "nn.Sequential(nn.Embedding(50, 32), nn.Linear(32, 50))"


def told(path: Path, model: str, *lines: str) -> str:
    """What is said of a script whose loop has `lines` before the loss of `out` is taken."""
    body = "\n".join(f"    {line}" for line in (*lines, "loss = out.square().mean()", "loss.backward()", "opt.step()"))
    path.write_text(
        "import torch\nfrom torch import nn\nclass Net(nn.Module):\n    def __init__(self):\n"
        f"        super().__init__()\n        self.inner = {model}\n"
        "    def forward(self, x):\n        return self.inner(x)\nsize = 6\nnet = Net()\n"
        f"opt = torch.optim.SGD(net.parameters(), 0.1)\nfor step in range(3):\n{body}\n"
    )
    result = probed(path)
    return "\n".join((f"batch={result.batch} seq={result.seq}", *result.assumptions))


@pytest.mark.parametrize(
    ("model", "lines", "sizes"),
    [
        (ROWS, ["x = torch.randn(24, 32)", "out = net(x)"], "batch=24 seq=None"),
        (ROWS, ["x, y = torch.rand(size, 32).double().float(), 3", "out = net(x)"], "batch=6 seq=None"),
        (ROWS, ["out = net(torch.zeros((12, 32)))"], "batch=12 seq=None"),
        (WORDS, ["x = torch.randint(0, 50, (4, 96))", "out = net(x)"], "batch=4 seq=96"),
        (WORDS, ["x = torch.randint(50, size=(size, 2 * size))", "out = net(x)"], "batch=6 seq=12"),
    ],
)
def test_the_sizes_of_what_is_drawn_are_those_of_the_step(
    model: str, lines: list[str], sizes: str, tmp_path: Path
) -> None:
    said = told(tmp_path / "train.py", model, *lines)
    assert said.startswith(sizes)
    assert "a batch of" in said
    assert "train.py:13 says (--batch)" in said


def test_pictures_are_of_the_size_that_is_drawn(tmp_path: Path) -> None:
    said = told(tmp_path / "train.py", PICTURES, "x = torch.randn(12, 3, 40, 56)", "out = net(x)")
    assert "float[batch, 3, 40, 56]" in said


@pytest.mark.parametrize("drawn", ["torch.randn(step + 1, 32)", "torch.randn(*shape)", "make(24, 32)"])
def test_sizes_that_only_a_run_tells_are_not_taken(drawn: str, tmp_path: Path) -> None:
    assert "(--batch)" in told(tmp_path / "train.py", ROWS, f"x = {drawn}", "out = net(x)")
    assert "says (--batch)" not in told(tmp_path / "other.py", ROWS, f"x = {drawn}", "out = net(x)")
