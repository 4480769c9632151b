"""Emacs 28 or later with eglot drives the server: the smoke test of an editor that counts code points."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SERVER = [sys.executable, "-m", "remat", "lsp"]
TEXT = "# page\f\nfrom torch.utils.checkpoint import checkpoint\ns = '𝄞'; y = checkpoint(block, x)\n"


@pytest.fixture(scope="module")
def told(tmp_path_factory, program):
    program("emacs", "emacs-nox", "elpa-eglot")
    folder = tmp_path_factory.mktemp("emacs")
    (folder / "train.py").write_text(TEXT, "utf-8")
    env = {
        **os.environ,
        "PYTHONPATH": str(HERE.parents[1] / "server"),
        "REMAT_SERVER": json.dumps(SERVER),
        "HOME": str(folder),
        "LC_ALL": "C.UTF-8",
    }
    command = ["emacs", "--batch", "-l", str(HERE / "emacs.el")]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False)
    lines = [line.split(" ", 2) for line in done.stderr.splitlines() if line.startswith("told ")]
    if "Cannot open load file" in done.stderr and '"eglot")' in done.stderr:
        pytest.fail("eglot is needed for this test; install it: sudo apt-get install elpa-eglot")
    assert done.returncode == 0, done.stderr
    return {key: json.loads(value) for _, key, value in lines} | {"saved": (folder / "train.py").read_text("utf-8")}


def test_emacs_shows_the_finding_on_its_word(told):
    (found,) = told["first"]
    assert found["text"] == "checkpoint"
    assert "use_reentrant" in found["message"]


def test_emacs_applies_the_quick_fix_and_the_finding_goes(told):
    assert told["titles"][0].startswith("Pass ")
    assert told["fixed"][2] == "s = '𝄞'; y = checkpoint(block, x, use_reentrant=False)"
    assert told["gone"]


def test_emacs_shows_what_is_typed_behind_a_form_feed_in_its_place(told):
    (found,) = told["typed"]
    assert found["text"] == "checkpoint"


def test_emacs_saves_just_that(told):
    fixed = TEXT.replace("(block, x)", "(block, x, use_reentrant=False)")
    assert told["saved"] == fixed + "s = '𝄞𝄞'; z = checkpoint(other, x)\n"
