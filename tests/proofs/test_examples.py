"""The example is real: its programs run on a CPU, its mistakes do what its README says, and Remat's fixes cure them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from measure import close, gradients, saved_bytes

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
PROGRAMS = ("model", "train", "captioner", "pretrain_hf")
quiet = pytest.mark.filterwarnings("ignore:torch.utils.checkpoint")


def remat(*arguments, folder):
    command = [sys.executable, "-m", "remat", *arguments, "."]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "server")}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode in {0, 1}, done.stderr
    return done.stdout


def findings(folder):
    """(file's name, text of the line, rule) of each finding of `remat check`."""
    return {
        (path.name, path.read_text().splitlines()[finding["location"]["row"] - 1].strip(), finding["code"])
        for finding in json.loads(remat("check", "--output-format", "json", folder=folder))
        for path in [folder / Path(finding["filename"]).name]
    }


@pytest.fixture(scope="module")
def fixed(tmp_path_factory):
    """The example project after all of Remat's fixes."""
    folder = shutil.copytree(EXAMPLES, tmp_path_factory.mktemp("fixed") / "examples")
    remat("fix", "--unsafe-fixes", folder=folder)
    return folder


@pytest.fixture
def program(monkeypatch):
    """Import a program as it is in one of the folders."""

    def forget():
        for module in PROGRAMS:
            sys.modules.pop(module, None)

    def load(name, folder=EXAMPLES):
        forget()
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
        monkeypatch.syspath_prepend(str(folder))
        return __import__(name)

    yield load
    forget()


@pytest.fixture
def losses(program, monkeypatch, capsys):
    """Run a program's main with arguments. Returns the losses it printed, by step."""

    def run(name, *arguments, folder=EXAMPLES):
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *map(str, arguments)])
        program(name, folder).main()
        printed = re.findall(r"^step +(\d+) +loss ([\d.]+)", capsys.readouterr().out, re.MULTILINE)
        return {int(step): float(loss) for step, loss in printed}

    return run


@quiet
def test_training_learns_saves_and_goes_on_where_it_stopped(losses, tmp_path):
    learnt = losses("train", "--steps", 2, "--out", tmp_path)
    assert learnt[1] < learnt[0]
    assert [path.name for path in tmp_path.iterdir()] == ["step00000002.pt"]
    assert list(losses("train", "--steps", 3, "--resume", "--out", tmp_path)) == [2]


@quiet
def test_the_captioner_learns_until_checkpointing_is_switched_on(losses):
    learnt = losses("captioner", "--steps", 5)
    assert learnt[4] < learnt[0]
    with pytest.raises(ValueError, match="Unexpected keyword arguments: padding"):
        losses("captioner", "--checkpoint")


def test_pretraining_learns_whatever_its_gradients(losses):
    learnt = losses("pretrain_hf", "--steps", 4)
    assert learnt[3] < learnt[0]


@quiet
def test_the_decoders_loss_in_slices_gives_wrong_gradients_until_it_is_fixed(program, fixed):
    def trained(folder, **options):
        module = program("model", folder)
        torch.manual_seed(0)
        model = module.Decoder(module.Config(context=16, width=32, heads=2, layers=2, **options))
        tokens = torch.arange(32).view(2, 16)
        return gradients(model, lambda: model(tokens, tokens + 1))

    kept = trained(EXAMPLES, checkpoint=False, loss_slices=1)
    assert close(trained(EXAMPLES, checkpoint=True, loss_slices=1), kept)
    assert not close(trained(EXAMPLES, checkpoint=True, loss_slices=4), kept)
    assert close(trained(fixed, checkpoint=True, loss_slices=4), kept)


def test_the_captioner_keeps_far_fewer_activations_once_no_layer_is_skipped(program, fixed):
    def captioner(folder, *, use_checkpoint, measure):
        torch.manual_seed(0)
        model = program("captioner", folder).Captioner(32, 4, 4, 4, 4, use_checkpoint=use_checkpoint)
        pictures, tokens = torch.rand(2, 3, 32, 32), torch.tensor([[1, 3, 4, 2], [1, 3, 2, 0]])
        return measure(model, lambda: model(pictures, tokens).logsumexp(-1).sum())

    plain, wrapped = {"use_checkpoint": False}, {"use_checkpoint": True}
    assert captioner(fixed, **wrapped, measure=saved_bytes) * 6 < captioner(fixed, **plain, measure=saved_bytes)
    kept = captioner(EXAMPLES, **plain, measure=gradients)
    assert close(captioner(fixed, **wrapped, measure=gradients), kept)


def test_the_wrapped_llama_gets_wrong_gradients_until_the_call_says_use_cache_false(program):
    tokens = torch.arange(32).view(2, 16)

    def trained(**call):
        torch.manual_seed(0)
        model = program("pretrain_hf").build(width=32, layers=2).train()
        return gradients(model, lambda: model(input_ids=tokens, labels=tokens, **call).loss)

    assert not close(trained(), trained(use_cache=False))


def test_the_job_for_ci_says_by_its_exit_status_whether_the_model_fits(tmp_path):
    jobs = (EXAMPLES / "memory-budget.yml").read_text()
    (command,) = re.findall(r"- run: remat (probe .+)", jobs)
    page = tmp_path / "memory.html"
    arguments = [sys.executable, "-m", "remat", *command.split()[:-1], page, "--python", sys.executable]

    def status(*changed):
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "server")}
        return subprocess.run([*arguments, *changed], cwd=EXAMPLES, env=environment, check=False).returncode

    assert status() == 0
    assert "<svg" in page.read_text()
    assert status("--budget", "1GiB") == 1
    assert status("--budget", "T4", "--seq", "9999999999") == 2


def test_remat_says_of_the_examples_what_their_readme_says():
    table = re.findall(r"^\| `(\S+)` `(.+?)` \| `(\S+)` \|", (EXAMPLES / "README.md").read_text(), re.MULTILINE)
    assert findings(EXAMPLES) == set(table)


def test_after_remats_fixes_nothing_is_left_to_say_and_every_program_runs(fixed, losses, tmp_path):
    assert findings(fixed) == set()
    assert losses("train", "--steps", 1, "--out", tmp_path, folder=fixed)
    assert losses("captioner", "--steps", 2, "--checkpoint", folder=fixed)
    assert losses("pretrain_hf", "--steps", 1, folder=fixed)
