"""Neovim 0.7 or later drives the server: the smoke test of an editor that is not VS Code."""

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
    program("nvim", "neovim")
    folder = tmp_path_factory.mktemp("neovim")
    (folder / "train.py").write_text(TEXT, "utf-8")
    env = {
        **os.environ,
        "PYTHONPATH": str(HERE.parents[1] / "server"),
        "REMAT_SERVER": json.dumps(SERVER),
        "REMAT_TOLD": str(folder / "told.json"),
        "HOME": str(folder),
        "XDG_STATE_HOME": str(folder),
        "LC_ALL": "C.UTF-8",
    }
    command = ["nvim", "--headless", "-u", "NONE", "-c", f"luafile {HERE / 'neovim.lua'}"]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False)
    told = folder / "told.json"
    assert told.exists(), done.stderr + done.stdout
    return json.loads(told.read_text("utf-8")) | {"saved": (folder / "train.py").read_text("utf-8")}


def test_neovim_shows_the_finding_on_its_word(told):
    (found,) = told["first"]
    assert (found["text"], found["line"]) == ("checkpoint", 2)
    assert found["source"] == "Remat"


def test_neovim_applies_the_quick_fix_and_the_finding_goes(told):
    assert told["titles"][0].startswith("Pass ")
    assert told["fixed"][2] == "s = '𝄞'; y = checkpoint(block, x, use_reentrant=False)"
    assert told["gone"]


def test_neovim_shows_what_is_typed_behind_a_form_feed_in_its_place(told):
    (found,) = told["typed"]
    assert (found["text"], found["line"]) == ("checkpoint", 3)
    assert told["hover"].startswith("**checkpoint-without-use-reentrant**")


def test_neovim_saves_just_that(told):
    fixed = TEXT.replace("(block, x)", "(block, x, use_reentrant=False)")
    assert told["saved"] == fixed + "s = '𝄞𝄞'; z = checkpoint(other, x)\n"
