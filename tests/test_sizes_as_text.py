"""Sizes and places as the command line writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from remat.probe.messages import Range
from remat.render.sizes import between, short_path, size


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0 B"), (1016, "1016 B"), (1024, "1.0 KiB"), (3 * 2**29, "1.5 GiB"), (2**20, "1.0 MiB")]
)
def test_a_size_is_in_the_largest_unit_of_which_there_is_one(value: float, text: str) -> None:
    assert size(value) == text


def test_both_ends_of_a_range_are_in_one_unit() -> None:
    assert between(Range(2**29, 2**30)) == "0.5 to 1.0 GiB"
    assert between(Range(2**30, 2**30)) == "1.0 GiB"
    assert between(None) == ""


def test_a_place_is_as_short_as_it_stays_clear(tmp_path: Path) -> None:
    assert short_path(str(Path("models", "net.py").absolute())) == str(Path("models", "net.py"))
    assert short_path(str(tmp_path / "net.py")) == str(tmp_path / "net.py")
    library = "/home/me/.venv/lib/python3.11/site-packages/transformers/models/clip/modeling_clip.py"
    assert short_path(library) == "transformers/models/clip/modeling_clip.py"
    assert short_path(r"C:\venv\Lib\site-packages\torch\nn\modules\linear.py") == "torch/nn/modules/linear.py"
