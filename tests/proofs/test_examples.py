"""The example project is real: its programs run on a CPU, and its mistakes do what its README says they do."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(script, *arguments):
    """Run one of the example's programs as its README says. Returns the exit status and what was printed."""
    done = subprocess.run(
        [sys.executable, script, *map(str, arguments)],
        cwd=EXAMPLES,
        env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def losses(printed):
    return [float(loss) for loss in re.findall(r"^step .* loss ([\d.]+)", printed, re.MULTILINE)]


def test_training_learns_saves_and_goes_on_where_it_stopped(tmp_path):
    status, printed = run("train.py", "--steps", 2, "--out", tmp_path)
    assert status == 0, printed
    assert losses(printed)[-1] < losses(printed)[0]
    assert [path.name for path in tmp_path.iterdir()] == ["step00000002.pt"]
    assert "use_reentrant parameter should be passed explicitly" in printed
    status, printed = run("train.py", "--steps", 3, "--resume", "--out", tmp_path)
    assert status == 0, printed
    assert re.findall(r"^step +(\d+)", printed, re.MULTILINE) == ["2"]


def test_the_captioner_learns_until_checkpointing_is_switched_on():
    status, printed = run("captioner.py", "--steps", 5)
    assert status == 0, printed
    assert losses(printed)[-1] < losses(printed)[0]
    status, printed = run("captioner.py", "--steps", 5, "--checkpoint")
    assert status == 1
    assert printed.rstrip().endswith("ValueError: Unexpected keyword arguments: padding")


def test_pretraining_runs_and_says_nothing_of_its_wrong_gradients():
    status, printed = run("pretrain_hf.py", "--steps", 2)
    assert status == 0, printed
    assert "cache" not in printed


@pytest.fixture
def example_modules(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield
    for name in ("model", "train", "pretrain_hf"):
        sys.modules.pop(name, None)


def test_a_loss_in_slices_changes_the_gradients_of_the_decoder(example_modules):
    import torch  # noqa: PLC0415
    from measure import close, gradients  # noqa: PLC0415
    from model import Config, Decoder  # noqa: PLC0415

    tokens = torch.arange(32).view(2, 16)

    def trained(*, checkpoint, loss_slices):
        torch.manual_seed(0)
        config = Config(context=16, width=32, heads=2, layers=2, checkpoint=checkpoint, loss_slices=loss_slices)
        model = Decoder(config)
        return gradients(model, lambda: model(tokens, tokens + 1))

    kept = trained(checkpoint=False, loss_slices=1)
    assert close(trained(checkpoint=True, loss_slices=1), kept)
    assert not close(trained(checkpoint=True, loss_slices=4), kept)


def test_the_wrapped_llama_gets_wrong_gradients_and_use_cache_false_cures_it(example_modules):
    import torch  # noqa: PLC0415
    from measure import close, gradients  # noqa: PLC0415
    from pretrain_hf import build  # noqa: PLC0415

    tokens = torch.arange(32).view(2, 16)

    def trained(**call):
        torch.manual_seed(0)
        model = build(width=32, layers=2).train()
        return gradients(model, lambda: model(input_ids=tokens, labels=tokens, **call).loss)

    assert not close(trained(), trained(use_cache=False))
