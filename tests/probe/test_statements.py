"""Which statements of a user's file may run."""

from __future__ import annotations

import ast

import pytest

from remat.probe.target.statements import When, plan


def when(text: str) -> When:
    return plan(ast.parse(text)).statements[0].when


@pytest.mark.parametrize(
    "text",
    [
        "for batch in loader:\n    loss.backward()\n    optimizer.step()",
        "while True:\n    trainer.fit(model)",
        "trainer.train()",
        "main()",
        "model.fit(data)",
        "if __name__ == '__main__':\n    main()",
        "subprocess.run(['rm'])",
        "os.system('rm')",
        "print(model)",
    ],
)
def test_what_trains_or_acts_never_runs(text: str) -> None:
    assert when(text) is When.NEVER


@pytest.mark.parametrize("text", ["import torch", "x = load()", "class A: ...", "def f(): ...", "try:\n    import a\nexcept ImportError:\n    a = None"])  # fmt: skip  # noqa: E501
def test_what_binds_a_name_runs_when_the_name_is_needed(text: str) -> None:
    assert when(text) is When.ON_DEMAND


@pytest.mark.parametrize("text", ["sys.path.append('..')", "torch.manual_seed(0)", "@register\ndef f(): ...", "torch.backends.cudnn.benchmark = True"])  # fmt: skip  # noqa: E501
def test_what_others_rely_on_runs_at_once(text: str) -> None:
    assert when(text) is When.AT_ONCE


def test_what_changes_an_object_goes_with_its_name() -> None:
    found = plan(ast.parse("parser = P()\nparser.add_argument('--x')\nargs = parser.parse_args()"))
    assert found.by_name["parser"] == [0, 1]
    assert found.by_name["args"] == [2]
