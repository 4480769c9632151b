"""A file is judged with what its project says: its configurations near by, and the modules it imports."""

from __future__ import annotations

import time

import pytest

from remat.lint.project import Fact
from remat.surroundings import Surroundings

ZERO3 = '{"zero_optimization": {"stage": 3}}'
PEFT = "from peft import get_peft_model\n"


@pytest.fixture
def project(tmp_path):
    (tmp_path / "pyproject.toml").write_text("")

    def lay(**files):
        for name, text in files.items():
            path = tmp_path / name.replace("__", "/").replace("DOT", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    return tmp_path, lay


def facts(root, path, text=""):
    around = Surroundings().of(str(root / path), text)
    return {fact for fact in Fact if around.says(fact)}


@pytest.mark.parametrize(
    "place",
    ["ds.json", "train/ds.json", "train/configs/ds.json", "train/a/b/ds.json", "configs/ds.json", "conf/x/ds.json"],
)
def test_a_configuration_near_the_file_or_on_the_way_up_counts(project, place):
    root, _ = project
    (root / place).parent.mkdir(parents=True, exist_ok=True)
    (root / place).write_text(ZERO3)
    (root / "train").mkdir(exist_ok=True)
    assert facts(root, "train/main.py") == {Fact.ZERO3}


@pytest.mark.parametrize(
    "place", ["other/ds.json", "train/node_modules/ds.json", "train/.venv/ds.json", "train/a/b/c/ds.json", "../ds.json"]
)
def test_a_configuration_of_something_else_does_not(project, place):
    root, _ = project
    (root / place).parent.mkdir(parents=True, exist_ok=True)
    (root / place).write_text(ZERO3)
    (root / "train").mkdir(exist_ok=True)
    assert facts(root, "train/main.py") == set()


def test_a_json_file_too_large_for_a_configuration_is_data(project):
    root, lay = project
    lay(dataDOTjson=ZERO3 + " " * 70_000)
    assert facts(root, "main.py") == set()


@pytest.mark.parametrize(
    ("place", "line"),
    [
        ("pkg/load.py", "from .load import model"),
        ("pkg/load.py", "from . import load"),
        ("pkg/load.py", "from . import (\n    other,  # why\n    load,\n)"),
        ("pkg/load.py", "import load"),
        ("pkg/load.py", "import os, pkg.load as it"),
        ("pkg/load.py", "def f():\n    from pkg.load import model"),
        ("load.py", "from ..load import model"),
        ("models/__init__.py", "import models"),
        ("src/lib/load.py", "from lib import load"),
    ],
)
def test_a_module_that_is_imported_counts(project, place, line):
    root, _ = project
    (root / place).parent.mkdir(parents=True, exist_ok=True)
    (root / place).write_text(PEFT)
    (root / "pkg").mkdir(exist_ok=True)
    assert facts(root, "pkg/main.py", line + "\n") == {Fact.PEFT}
    assert facts(root, "pkg/main.py", "import torch\n") == set()


def test_what_the_file_says_itself_counts_too(project):
    root, lay = project
    lay(dsDOTjson=ZERO3)
    assert facts(root, "main.py", PEFT) == {Fact.ZERO3, Fact.PEFT}


def test_paths_are_relative_to_the_project(project):
    root, lay = project
    lay(pkg__loadDOTpy=PEFT)
    around = Surroundings().of(str(root / "pkg" / "main.py"), "from .load import model\n")
    assert around.imported_says(Fact.PEFT, ["pkg.load"])
    assert [summary.path for summary in around.summaries] == ["pkg/main.py", "pkg/load.py"]


def test_an_open_document_comes_before_the_disk(project):
    root, lay = project
    lay(loadDOTpy="")
    around = Surroundings(read=lambda path, _: PEFT if path.endswith("load.py") else None)
    assert around.of(str(root / "main.py"), "import load\n").says(Fact.PEFT)


def test_a_file_that_imports_itself_a_missing_module_or_a_folder_is_no_trouble(project):
    root, lay = project
    lay(mainDOTpy=PEFT)
    (root / "odd.py").mkdir()
    assert facts(root, "main.py", "import main, gone, odd\nfrom . import\nfrom .... import x\n") == set()


def test_text_full_of_unclosed_imports_takes_no_time(project):
    root, _ = project
    assert facts(root, "main.py", "from x import (\n" * 20_000) == set()


SAID = {
    Fact.ZERO3: (
        'ds = {"stage": 3}\n',
        "zero_optimization:\n  stage: 3\n",
        '"stage":\n  3\n',
        "deepspeed: zero3.json\n",
    ),
    Fact.PEFT: (PEFT, "adapter: qlora\n", "lora_rank: 8\n", "use_peft: true\n"),
    Fact.FSDP2: ("fully_shard(model)\n", "fsdp_version: 2\n"),
    Fact.CACHE_OFF: ("model(x, use_cache=False)\n", "use_cache: false\n"),
}


def test_every_fact_is_heard_from_python_and_from_a_configuration_amid_much_else(project):
    root, lay = project
    assert set(SAID) == set(Fact)
    much = "x = [1, 2]\n" * 1000
    for fact, (python, *configs) in SAID.items():
        assert facts(root, "main.py", much + python + much) == {fact}
        for config in configs:
            lay(aDOTyaml="# nothing\n" * 1000 + config)
            assert facts(root, "main.py") == {fact}
        lay(aDOTyaml="")


def test_a_long_text_is_summarised_in_no_time(project):
    root, _ = project
    text = "        hidden = self.layer(hidden, use_cache=use_cache)  # the next stage\n" * 5000

    def seconds():
        start = time.process_time()
        facts(root, "main.py", text)
        return time.process_time() - start

    assert any(seconds() < 0.2 for _ in range(3))  # a busy neighbour may spoil one
