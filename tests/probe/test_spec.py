"""What a comment `# remat: probe(...)` says."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest

from remat.probe.built import FactMissingError
from remat.probe.target.spec import given_names, spec_of, specs

if TYPE_CHECKING:
    from pathlib import Path

CLASSES = """
# remat: probe(batch=4, seq=2048, dtype="bf16", optimizer="adamw")
class First: ...

class Second:
    # remat: probe(model=Second(width=(1 + 2)), image=(64, 32))
    pass
"""


def of(text: str, name: str | None) -> object:
    node = next((n for n in ast.parse(text).body if isinstance(n, ast.ClassDef) and n.name == name), None)
    return spec_of(text, "model.py", node)


def test_it_belongs_to_the_class_below_it_or_around_it() -> None:
    first, second = of(CLASSES, "First"), of(CLASSES, "Second")
    assert (first.batch, first.seq, first.dtype, first.optimizer) == (4, 2048, "bf16", "adamw")  # type: ignore[attr-defined]
    assert (second.model, second.image, second.batch) == ("Second(width=1 + 2)", (64, 32), None)  # type: ignore[attr-defined]


def test_comments_below_each_other_are_one_and_the_lowest_has_the_last_word(tmp_path: Path) -> None:
    text = """
# remat: probe(model=Net(8), batch=2, names={"a": 1, "b": 2})
# what else is missing:
# remat: probe(inputs={"x": (batch, 8)}, names={"b": 3})
# remat: probe(batch=4)
class Net: ...

# remat: probe(seq=7)
other = 1
"""
    merged, alone = specs(text, "model.py")
    assert (merged.model, merged.batch, merged.inputs, merged.seq) == ("Net(8)", 4, "{'x': (batch, 8)}", None)
    assert alone.seq == 7
    assert given_names(text, tmp_path / "model.py") == {"a": 1, "b": 3}


def test_what_stands_above_a_class_and_in_it_is_said_of_it_together() -> None:
    spec = of("# remat: probe(batch=2)\nclass Net:\n    # remat: probe(batch=3, seq=9)\n    pass\n", "Net")
    assert (spec.batch, spec.seq) == (2, 9)  # type: ignore[attr-defined]


def test_it_may_go_on_over_several_lines() -> None:
    (spec,) = specs('# remat: probe(batch=2,\n#   inputs={"x": (2, 3)},\n#   )\nx = 1\n', "model.py")
    assert (spec.batch, spec.inputs) == (2, "{'x': (2, 3)}")


def test_a_text_that_looks_like_it_is_none() -> None:
    assert specs('x = "# remat: probe(batch=2)"\n', "model.py") == []


@pytest.mark.parametrize(
    ("comment", "says"),
    [
        ("# remat: probe(bacth=2)", "`bacth=` in the probe comment is no option"),
        ("# remat: probe(batch=0)", "`batch=` in the probe comment is 0"),
        ("# remat: probe(dtype=torch.int8)", "is no dtype"),
        ("# remat: probe(batch=)", "can't be read"),
        ("# remat: probe(3)", "only keyword arguments"),
    ],
)
def test_what_it_gets_wrong_is_named_with_its_line(comment: str, says: str) -> None:
    with pytest.raises(FactMissingError, match=says.replace("(", r"\(")) as caught:
        specs(f"\n{comment}\n", "model.py")
    assert caught.value.location is not None
    assert caught.value.location.line == 2
