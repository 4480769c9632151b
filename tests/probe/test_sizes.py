"""Results say what batch was used."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from asking import LINEAR, result, warm, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from asking import Ask

TOKENS = """
from torch import nn

# remat: probe(batch=8, seq=64)
class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(10, 8)

    def forward(self, ids):
        return self.embedding(ids)
"""
PICTURE = """
from torch import nn

class Picture(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 8, 3)

    def forward(self, image):
        return self.convolution(image)
"""


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    yield from warm()


def test_a_result_says_the_sizes_of_its_batch(tmp_path: Path, ask: Ask) -> None:
    write(tmp_path, tokens=TOKENS, picture=PICTURE, linear=LINEAR)
    said = result(ask(tmp_path, "tokens.py:Tokens"))
    assert (said.batch, said.seq) == (8, 64)
    asked = result(ask(tmp_path, "tokens.py:Tokens", batch=2, seq=16))
    assert (asked.batch, asked.seq) == (2, 16)
    image = result(ask(tmp_path, "picture.py:Picture", batch=3))
    assert (image.batch, image.seq) == (3, None)
    rows = result(ask(tmp_path, "linear.py:Net", batch=5))
    assert (rows.batch, rows.seq) == (5, None)
