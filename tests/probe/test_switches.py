"""What a script switches on after it has made a model is part of the model as written."""

from __future__ import annotations

import ast

import pytest

from remat.probe.target.switches import said, switched, switches


class Model:
    """Notes how it was switched."""

    def __init__(self) -> None:
        self.told: list[dict[str, object]] = []

    def gradient_checkpointing_enable(self, **settings: object) -> None:
        self.told.append(settings)


def told(text: str) -> list[dict[str, object]]:
    tree = ast.parse(text)
    made = next(n for n in ast.walk(tree) if isinstance(n, ast.Call) and ast.unparse(n.func) == "make")
    model = switched(Model(), switches(tree, made), ast.literal_eval)
    assert isinstance(model, Model)
    return model.told


KWARGS = {"use_reentrant": False}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("m = make()\nm.gradient_checkpointing_enable()", [{}]),
        (
            f"m = make()\nm.gradient_checkpointing_enable(gradient_checkpointing_kwargs={KWARGS})",
            [{"gradient_checkpointing_kwargs": KWARGS}],
        ),
        (
            f"m = make()\nm.activation_checkpointing_enable(activation_checkpointing_kwargs={KWARGS})",
            [{"gradient_checkpointing_kwargs": KWARGS}],
        ),
        ("m = make()\nm.gradient_checkpointing_enable(gradient_checkpointing_kwargs=options.kwargs)", [{}]),
        ("m = make()\nother.gradient_checkpointing_enable()", []),
        ("m = make()\nif options.save:\n    m.gradient_checkpointing_enable()", []),
        ("m.gradient_checkpointing_enable()\nm = make()", []),
        ("m = make()\nTrainer(m, TrainingArguments('o', gradient_checkpointing=True))", [{}]),
        ("m = make()\nTrainer(m, TrainingArguments('o', gradient_checkpointing=on))", []),
        ("m = make()\na = TrainingArguments('o', gradient_checkpointing=True)", []),
    ],
)
def test_what_is_switched_is_done_to_the_model(text: str, expected: list[dict[str, object]]) -> None:
    assert told(text) == expected


def test_it_is_said_which_line_switches() -> None:
    tree = ast.parse("m = make()\nm.gradient_checkpointing_enable()")
    made = next(n for n in ast.walk(tree) if isinstance(n, ast.Call))
    assert said(switches(tree, made)) == ("checkpointing is as line 2 switches it",)
