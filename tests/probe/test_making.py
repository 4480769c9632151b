"""A model whose class has parameters without defaults is made as its project makes it, or the line to add is said."""

from __future__ import annotations

import json
import re
import textwrap
from typing import TYPE_CHECKING

import pytest
from asking import missing, result, warm, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from asking import Ask


MLP = """
    import torch
    from torch import nn

    class {name}(nn.Module):
        def __init__(self, width, classes):
            super().__init__()
            self.first = nn.Linear(width, width)
            self.last = nn.Linear(width, classes)

        def forward(self, x):
            return self.last(self.first(x))
"""
BY_SETTINGS = """
    import torch
    from torch import nn

    class {name}(nn.Module):
        def __init__(self, cfg):
            super().__init__()
            self.first = nn.Linear(cfg.model.width, cfg.model.width)
            self.head = Head(cfg)

        def forward(self, x):
            return self.head(self.first(x))

    class Head(nn.Module):
        def __init__(self, cfg):
            super().__init__()
            self.last = nn.Linear(cfg.model.width, cfg.classes)

        def forward(self, x):
            return self.last(x)
"""


@pytest.fixture(scope="module", name="ask")
def one_worker() -> Iterator[Ask]:
    yield from warm()


def with_line(folder: Path, name: str, how: str, **given: str) -> None:
    """Do what the message says: put the line above the one it names, with each `name=…` filled in."""
    match = re.search(r"above line (\d+) of (\S+?)[:,].*?(# remat: probe\(.*\))", how)
    assert match, how
    line = match[3]
    for key, value in given.items():
        line = line.replace(f"{key}=…", f"{key}={value}")
    assert "…" not in line
    lines = (folder / f"{name}.py").read_text().splitlines()
    lines.insert(int(match[1]) - 1, line)
    (folder / f"{name}_filled.py").write_text("\n".join(lines))


def test_a_call_anywhere_in_the_project_tells_what_a_class_is_made_with(tmp_path: Path, ask: Ask) -> None:
    (tmp_path / "networks").mkdir()
    write(tmp_path / "networks", far_net=MLP.format(name="Far"))
    (tmp_path / "scripts").mkdir()
    write(tmp_path / "scripts", run_far="from networks.far_net import Far\nfor i in range(9):\n    net = Far(24, 3)\n")
    assert "Far is made as at" in str(result(ask(tmp_path, "networks/far_net.py:Far")).assumptions)


def test_a_call_of_another_class_of_the_same_name_tells_nothing(tmp_path: Path, ask: Ask) -> None:
    write(tmp_path, twin_a=MLP.format(name="Twin"), twin_b=MLP.format(name="Twin") + "\n    net = Twin(8, 2)\n")
    assert "Twin(width=…, classes=…)" in missing(ask, tmp_path, "twin_a.py:Twin").how


def test_the_example_in_a_readme_tells_what_a_class_is_made_with(tmp_path: Path, ask: Ask) -> None:
    write(tmp_path, shown_net=MLP.format(name="Shown"))
    readme = "# Net\n\n```python\nfrom shown_net import Shown\n\nnet = Shown(width=16, classes=4)\n```\n"
    (tmp_path / "README.md").write_text(readme)
    assert "README.md:6" in str(result(ask(tmp_path, "shown_net.py:Shown")).assumptions)


def test_a_readme_tells_more_than_a_part_of_another_class(tmp_path: Path, ask: Ask) -> None:
    part = """
    class Whole(nn.Module):
        def __init__(self):
            super().__init__()
            self.part = Part(4, 2)
    """
    write(tmp_path, part_net=MLP.format(name="Part") + part)
    (tmp_path / "README.md").write_text("```python\nfrom part_net import Part\nnet = Part(width=64, classes=4)\n```\n")
    said = str(result(ask(tmp_path, "part_net.py:Part")).assumptions)
    assert "made as at" in said
    assert "README.md:3" in said.split("also", maxsplit=1)[0]


def test_what_tests_make_is_no_model_that_is_trained(tmp_path: Path, ask: Ask) -> None:
    (tmp_path / "tests").mkdir()
    write(tmp_path / "tests", test_toy="from toy_net import Toy\nnet = Toy(4, 2)\n")
    write(tmp_path, toy_net=MLP.format(name="Toy"))
    assert "Toy(width=…, classes=…)" in missing(ask, tmp_path, "toy_net.py:Toy").how


def test_other_calls_that_may_mean_another_model_are_named(tmp_path: Path, ask: Ask) -> None:
    write(tmp_path, often_net=MLP.format(name="Often") + "\n    small = Often(8, 2)\n    large = Often(512, 2)\n")
    said = str(result(ask(tmp_path, "often_net.py:Often")).assumptions)
    assert "often_net.py:13" in said
    assert "also called at" in said
    assert "often_net.py:14" in said


def test_what_a_function_s_caller_hands_over_is_followed(tmp_path: Path, ask: Ask) -> None:
    script = """
    from called_net import Called

    def start(rank, width):
        return Called(width, classes=5)

    def main(options):
        mp.spawn(start, nprocs=2, args=(options["width"],))

    if __name__ == "__main__":
        main({"width": 40})
    """
    write(tmp_path, called_net=MLP.format(name="Called"), called_main=script)
    assert "called_main.py:4" in str(result(ask(tmp_path, "called_net.py:Called")).assumptions)


def test_a_question_is_filled_in_as_far_as_the_project_tells_and_its_line_works(tmp_path: Path, ask: Ask) -> None:
    script = """
    import argparse
    from asked_net import Asked
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=48)
    args = parser.parse_args()
    words = open("words.txt").read().split()
    net = Asked(args.width, len(words))
    """
    write(tmp_path, asked_net=MLP.format(name="Asked"), asked_train=script)
    asked = missing(ask, tmp_path, "asked_net.py:Asked")
    assert "`classes` (given at" in asked.fact
    assert "words.txt" in asked.fact
    assert "probe(model=Asked(width=48, classes=…))" in asked.how
    with_line(tmp_path, "asked_net", asked.how, classes="7")
    assert result(ask(tmp_path, "asked_net_filled.py:Asked")).allocated_bytes > 0


def test_a_size_of_nothing_is_no_answer(tmp_path: Path, ask: Ask) -> None:
    script = "words = []\nfrom empty_net import Empty\nnet = Empty(16, len(words))\n"
    write(tmp_path, empty_net=MLP.format(name="Empty"), empty_train=script)
    assert "is 0" in missing(ask, tmp_path, "empty_net.py:Empty").fact


def test_fields_that_someone_has_to_set_are_asked_for_where_they_matter(tmp_path: Path, ask: Ask) -> None:
    text = """
    from dataclasses import dataclass
    import torch
    from torch import nn

    @dataclass
    class SetConfig:
        width: int = 16
        words: int = None

    class Set(nn.Module):
        def __init__(self, config):
            super().__init__()
            self.words = nn.Embedding(config.words, config.width)

        def forward(self, idx):
            return self.words(idx)
    """
    write(tmp_path, set_net=text)
    asked = missing(ask, tmp_path, "set_net.py:Set")
    assert "`words` of `SetConfig(…)`" in asked.fact
    with_line(tmp_path, "set_net", asked.how, words="100")
    assert "int[batch, seq]" in str(result(ask(tmp_path, "set_net_filled.py:Set")).assumptions)


def test_such_fields_are_asked_for_beside_other_parameters(tmp_path: Path, ask: Ask) -> None:
    text = """
    from dataclasses import dataclass
    import torch
    from torch import nn

    @dataclass
    class BothConfig:
        width: int = None

    class Both(nn.Module):
        def __init__(self, config, classes):
            super().__init__()
            self.last = nn.Linear(config.width, classes)

        def forward(self, x):
            return self.last(x)
    """
    write(tmp_path, both_net=text)
    asked = missing(ask, tmp_path, "both_net.py:Both")
    assert "Both(config=BothConfig(width=…), classes=…)" in asked.how
    with_line(tmp_path, "both_net", asked.how, width="8", classes="3")
    assert result(ask(tmp_path, "both_net_filled.py:Both")).allocated_bytes > 0


def test_the_one_file_of_settings_that_has_all_a_class_reads_is_its_configuration(tmp_path: Path, ask: Ask) -> None:
    write(tmp_path, one_net=BY_SETTINGS.format(name="One"))
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "base.json").write_text('{"model": {"width": 12}, "classes": 3}')
    (tmp_path / "conf" / "data.json").write_text('{"model": {"width": 12}}')
    assert "cfg is read from conf/base.json" in str(result(ask(tmp_path, "one_net.py:One")).assumptions)


@pytest.mark.parametrize("style", ["target", "_target_"])
def test_a_file_of_settings_that_names_the_class_says_what_it_is_made_with(
    tmp_path: Path, ask: Ask, style: str
) -> None:
    module = f"set{style}_net"
    write(tmp_path, **{module: MLP.format(name="Chosen")})
    entry = {style: f"{module}.Chosen", "width": 10, "classes": 3}
    if style == "target":
        entry = {style: f"{module}.Chosen", "params": {"width": 10, "classes": 3}}
    (tmp_path / "run.json").write_text(json.dumps({"lr": 0.1, "model": {"network": entry}}))
    said = str(result(ask(tmp_path, f"{module}.py:Chosen")).assumptions)
    assert "Chosen is made as run.json says" in said
    assert "float[batch, 10]" in said


def test_which_of_several_files_of_settings_is_asked_and_the_line_works(tmp_path: Path, ask: Ask) -> None:
    write(tmp_path, many_net=BY_SETTINGS.format(name="Many"))
    for name, width in (("large", 64), ("small", 8)):
        (tmp_path / f"{name}.json").write_text(f'{{"model": {{"width": {width}}}, "classes": 3}}')
    asked = missing(ask, tmp_path, "many_net.py:Many")
    assert "classes, model.width" in asked.fact
    assert 'probe(config="large.json"), or small.json' in asked.how
    with_line(tmp_path, "many_net", asked.how.split(", or ")[0])
    assert "cfg is read from large.json" in str(result(ask(tmp_path, "many_net_filled.py:Many")).assumptions)


def test_without_any_settings_what_is_read_of_them_is_asked_for(tmp_path: Path, ask: Ask) -> None:
    write(tmp_path, bare_net=BY_SETTINGS.format(name="Bare"))
    asked = missing(ask, tmp_path, "bare_net.py:Bare")
    assert "Bare(cfg=Namespace(classes=…, model=Namespace(width=…)))" in asked.how
    with_line(tmp_path, "bare_net", asked.how, classes="3", width="8")
    assert result(ask(tmp_path, "bare_net_filled.py:Bare")).allocated_bytes > 0


def test_the_options_of_a_script_are_the_configuration_of_a_class_that_reads_them(tmp_path: Path, ask: Ask) -> None:
    text = """
    import torch
    from torch import nn

    class Optioned(nn.Module):
        def __init__(self, opts):
            super().__init__()
            self.last = nn.Linear(opts.width, opts.classes)

        def forward(self, x):
            return self.last(x)
    """
    script = """
    import argparse

    def options():
        parser = argparse.ArgumentParser()
        parser.add_argument("--width", type=int, default=48)
        parser.add_argument("--classes", type=int, default=4)
        parser.add_argument("--lr", type=float, default=0.1)
        return parser.parse_args()
    """
    write(tmp_path, optioned_net=text, optioned_main=script)
    assert "opts is read from the options of" in str(result(ask(tmp_path, "optioned_net.py:Optioned")).assumptions)


def test_the_options_that_a_script_requires_are_said_in_one_line(tmp_path: Path, ask: Ask) -> None:
    text = """
    import argparse
    import torch
    from torch import nn
    parser = argparse.ArgumentParser()
    parser.add_argument("--kind", required=True)
    opt = parser.parse_args()
    if opt.kind == "grey":
        channels = 1
    elif opt.kind == "colour":
        channels = 3

    class Told(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(channels, 4, 3)

        def forward(self, x):
            return self.conv(x)
    """
    write(tmp_path, told_net=text)
    asked = missing(ask, tmp_path, "told_net.py:Told")
    assert 'probe(args="--kind …")' in asked.how
    line = 'probe(args="--kind colour")'
    with_line(tmp_path, "told_net", asked.how.replace('probe(args="--kind …")', line))
    said = str(result(ask(tmp_path, "told_net_filled.py:Told")).assumptions)
    assert "float[batch, 3, 224, 224]" in said
    assert "options that the script requires are None" not in said


def test_names_that_only_the_guard_of_a_script_binds_are_known_to_its_classes(tmp_path: Path, ask: Ask) -> None:
    text = """
    import torch
    from torch import nn

    class Guarded(nn.Module):
        def __init__(self):
            super().__init__()
            self.last = nn.Linear(width, 2)

        def forward(self, x):
            return self.last(x)

    if __name__ == "__main__":
        width = 20
        open("ran", "w").close()
        for step in range(10):
            Guarded()(torch.zeros(1, width)).sum().backward()
    """
    write(tmp_path, guarded_net=text)
    assert "float[batch, 20]" in str(result(ask(tmp_path, "guarded_net.py:Guarded")).assumptions)
    assert not (tmp_path / "ran").exists()


def test_a_method_that_makes_the_model_is_taken_where_its_defaults_do_not(tmp_path: Path, ask: Ask) -> None:
    text = """
    import torch
    from torch import nn

    class Named(nn.Module):
        def __init__(self, sizes=None):
            super().__init__()
            assert isinstance(sizes, list)
            self.last = nn.Linear(*sizes)

        @classmethod
        def from_name(cls, name):
            return cls({"tiny": [8, 2]}[name])

        def forward(self, x):
            return self.last(x)
    """
    write(tmp_path, named_net=text, named_use='from named_net import Named\nnet = Named.from_name("tiny")\n')
    assert "named_use.py:2" in str(result(ask(tmp_path, "named_net.py:Named")).assumptions)


def test_a_file_that_a_default_names_is_found_in_the_project(tmp_path: Path, ask: Ask) -> None:
    text = """
    import json
    import torch
    from torch import nn

    class Filed(nn.Module):
        def __init__(self, cfg="filed.json"):
            super().__init__()
            with open(cfg) as f:
                self.last = nn.Linear(json.load(f)["width"], 2)

        def forward(self, x):
            return self.last(x)
    """
    (tmp_path / "inner").mkdir()
    write(tmp_path / "inner", filed_net=text)
    (tmp_path / "inner" / "filed.json").write_text('{"width": 9}')
    assert "cfg is" in str(result(ask(tmp_path, "inner/filed_net.py:Filed")).assumptions)


def test_looking_how_a_model_is_made_writes_nothing(tmp_path: Path, ask: Ask) -> None:
    script = """
    import os
    from kept_net import Kept

    def settings():
        os.makedirs("logs")
        open("log.txt", "w").close()
        return {"width": 8}

    net = Kept(settings()["width"], 2)
    """
    write(tmp_path, kept_net=MLP.format(name="Kept"), kept_main=script)
    asked = missing(ask, tmp_path, "kept_net.py:Kept")
    assert "nothing is written (os.mkdir logs)" in asked.fact
    assert not (tmp_path / "logs").exists()
    assert not (tmp_path / "log.txt").exists()


def test_a_settings_object_that_a_constructor_changes_makes_the_next_model_alike(tmp_path: Path, ask: Ask) -> None:
    text = """
    import torch
    from torch import nn

    class Settings:
        kind = "small"
        width = None

    class Changing(nn.Module):
        def __init__(self, setup):
            super().__init__()
            assert (setup.width is None) != (setup.kind is None)
            setup.width = 8
            self.last = nn.Linear(setup.width, 2)

        def forward(self, x):
            return self.last(x)
    """
    use = "from changing_net import Changing, Settings\nsettings = Settings()\nnet = Changing(settings)\n"
    write(tmp_path, changing_net=text, changing_use=use)
    assert result(ask(tmp_path, "changing_net.py:Changing")).allocated_bytes > 0


def test_a_folder_of_a_package_hides_no_library(tmp_path: Path, ask: Ask) -> None:
    (tmp_path / "pack" / "triton").mkdir(parents=True)
    (tmp_path / "pack" / "__init__.py").write_text("")
    (tmp_path / "pack" / "triton" / "__init__.py").write_text("raise RuntimeError('not this one')")
    write(
        tmp_path / "pack",
        pack_net=MLP.format(name="Packed").replace("self, width, classes", "self, width=8, classes=2"),
    )
    assert result(ask(tmp_path, "pack/pack_net.py:Packed")).allocated_bytes > 0


HOLLOW = """
    import torch
    from torch import nn

    class Hollow(nn.Module):
        def __init__(self, widths=None, depth=1):
            super().__init__()
            if widths is not None:
                self.layers = nn.ModuleList(nn.Linear(w, w) for w in widths)

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x
"""


def test_a_model_without_parameters_is_made_as_it_is_called_or_asked_for(tmp_path: Path, ask: Ask) -> None:
    write(tmp_path, hollow=HOLLOW)
    asked = missing(ask, tmp_path, "hollow.py:Hollow")
    assert "`widths` of `Hollow(…)`, which has to be set: without, it fails (HollowError: " in asked.fact
    with_line(tmp_path, "hollow", asked.how, widths="[8]")
    assert result(ask(tmp_path, "hollow_filled.py:Hollow")).allocated_bytes > 0
    called = HOLLOW + "\n    if __name__ == '__main__':\n        model = Hollow([16, 16])\n"
    write(tmp_path, hollow_called=called)
    assert "float[batch, 16]" in str(result(ask(tmp_path, "hollow_called.py:Hollow")).assumptions)


def test_what_is_none_where_a_model_can_not_be_made_is_asked_for(tmp_path: Path, ask: Ask) -> None:
    text = """
    import torch
    from torch import nn

    class Patched(nn.Module):
        def __init__(self, side=32, patch=None, name=None):
            super().__init__()
            self.name = name
            self.patches = nn.Linear(
                side // patch, 8
            )

        def forward(self, x):
            return self.patches(x)
    """
    write(tmp_path, patched=text)
    asked = missing(ask, tmp_path, "patched.py:Patched")
    assert "`patch` of `Patched(…)`, which has to be set" in asked.fact
    with_line(tmp_path, "patched", asked.how, patch="4")
    assert "float[batch, 8]" in str(result(ask(tmp_path, "patched_filled.py:Patched")).assumptions)


def test_a_default_dtype_that_a_script_sets_before_it_makes_the_model_is_its(tmp_path: Path, ask: Ask) -> None:
    script = """
    import torch
    from wide_in_half import Wide

    def main():
        torch.set_default_dtype(torch.bfloat16)
        model = Wide(512, 2)
    """
    write(tmp_path, wide_in_half=MLP.format(name="Wide"), train_in_half=script)
    found = result(ask(tmp_path, "wide_in_half.py:Wide"))
    assert found.by_category["parameters"] == 2 * (512 * 512 + 512 + 2 * 512 + 2)
    assert "train_in_half.py:5 sets it" in str(found.assumptions)
    write(tmp_path, wide_alone=MLP.format(name="Alone") + "\n    model = Alone(8, 2)\n")
    assert "bfloat16" not in str(result(ask(tmp_path, "wide_alone.py:Alone")).assumptions)


def test_of_a_branch_only_what_the_call_needs_is_run(tmp_path: Path, ask: Ask) -> None:
    script = """
    import argparse
    from branching import Branching

    def main():
        parser = argparse.ArgumentParser()
        parser.add_argument("--data", default="random")
        args = parser.parse_args()
        if args.data == "files":
            width = open(args.data).read()
        else:
            width = 16
            loader = open("not-there")
        args.width = width + 1
        model = Branching(args.width, 2)
    """
    write(tmp_path, branching=MLP.format(name="Branching"), train_branching=script)
    assert "float[batch, 17]" in str(result(ask(tmp_path, "branching.py:Branching")).assumptions)


def test_decorators_that_only_document_may_be_those_of_another_version(tmp_path: Path, ask: Ask) -> None:
    text = """
    import torch
    from torch import nn
    from transformers.utils import add_code_sample_docstrings

    class Documented(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 8)

        @add_code_sample_docstrings(of_another_version=True)
        def forward(self, x):
            return self.linear(x)
    """
    write(tmp_path, documented=text)
    assert result(ask(tmp_path, "documented.py:Documented")).allocated_bytes > 0


def test_a_name_that_hangs_on_data_is_given_by_a_line(tmp_path: Path, ask: Ask) -> None:
    text = """
    import torch
    from torch import nn

    with open("corpus-that-is-not-there.txt") as file:
        text = file.read()
    letters = sorted(set(text))
    letter_count = len(letters)

    class Letters(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(letter_count, 8)

        def forward(self, idx):
            return self.embedding(idx)

    model = Letters()
    """
    write(tmp_path, letters=text)
    asked = missing(ask, tmp_path, "letters.py:Letters")
    assert asked.fact == "`letter_count`, which is worked out from corpus-that-is-not-there.txt, which is not there"
    assert "add above line 7 of " in asked.how
    filled = textwrap.dedent(text).lstrip().splitlines()
    filled.insert(6, '# remat: probe(names={"letter_count": 65})')
    (tmp_path / "letters_filled.py").write_text("\n".join(filled))
    assert "int[batch, seq]" in str(result(ask(tmp_path, "letters_filled.py:Letters")).assumptions)


def test_a_configuration_that_needs_values_is_spelled_in_the_question(tmp_path: Path, ask: Ask) -> None:
    text = """
    from dataclasses import dataclass
    from typing import Union
    import torch
    from torch import nn

    @dataclass
    class OneConfig:
        width: int
        depth: int = 2

    @dataclass
    class OtherConfig:
        rank: int

    class Either(nn.Module):
        def __init__(self, inner: Union[OneConfig, OtherConfig], classes: int):
            super().__init__()
            self.last = nn.Linear(inner.width, classes)

        def forward(self, x):
            return self.last(x)
    """
    write(tmp_path, either=text)
    asked = missing(ask, tmp_path, "either.py:Either")
    assert "model=Either(inner=OneConfig(width=…), classes=…)" in asked.how


def test_settings_beside_the_name_of_a_class_are_what_it_is_made_with(tmp_path: Path, ask: Ask) -> None:
    write(tmp_path, by_name=MLP.format(name="ByName"))
    settings = {"model_params": {"name": "ByName", "width": 24, "classes": 3, "patience": 9}, "lr": 0.1}
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "by_name.json").write_text(json.dumps(settings))
    said = str(result(ask(tmp_path, "by_name.py:ByName")).assumptions)
    assert "ByName is made as configs/by_name.json says" in said
    assert "float[batch, 24]" in said


def test_the_options_of_the_script_around_a_model_are_meant_not_those_of_one_inside(tmp_path: Path, ask: Ask) -> None:
    script = """
    import argparse
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default={width})
    parser.add_argument("--classes", type=int, default=3)
    args = parser.parse_args()
    """
    model = """
    import torch
    from torch import nn

    class Around(nn.Module):
        def __init__(self, configs):
            super().__init__()
            self.last = nn.Linear(configs.width, configs.classes)

        def forward(self, x):
            return self.last(x)
    """
    for folder in ("models", "other"):
        (tmp_path / folder).mkdir()
    write(tmp_path / "models", around=model)
    write(tmp_path, run_around=script.format(width=24))
    write(tmp_path / "other", run_other=script.format(width=99))
    assert "float[batch, 24]" in str(result(ask(tmp_path, "models/around.py:Around")).assumptions)


def test_a_file_with_the_name_of_its_package_hides_it_not(tmp_path: Path, ask: Ask) -> None:
    inside = tmp_path / "decider" / "models"
    inside.mkdir(parents=True)
    write(inside, base="import torch\nfrom torch import nn\n\nclass Base(nn.Module):\n    pass\n")
    text = """
    import torch
    from torch import nn
    from decider.models.base import Base

    class Decider(Base):
        def __init__(self):
            super().__init__()
            self.last = nn.Linear(8, 2)

        def forward(self, x):
            return self.last(x)
    """
    write(inside, decider=text)
    assert result(ask(tmp_path, "decider/models/decider.py:Decider")).allocated_bytes > 0


def test_a_folder_that_is_named_like_a_file_is_no_file(tmp_path: Path, ask: Ask) -> None:
    for folder in (tmp_path / "beside.py", tmp_path / "inner", tmp_path / "inner" / "below.py"):
        folder.mkdir()
    write(tmp_path / "inner", alone=MLP.format(name="Alone") + "\n    model = Alone(8, 2)\n")
    assert result(ask(tmp_path, "inner/alone.py:Alone")).allocated_bytes > 0


@pytest.mark.parametrize(
    ("module", "listed", "named"),
    [
        ("sound_tools_x", "setup(install_requires=['acme-sound-tools-x>=0.7', 'torch'])", "acme-sound-tools-x"),
        ("tltorch", "", "tensorly-torch"),
        ("some_thing_x", "", "some_thing_x"),
    ],
)
def test_what_to_install_is_what_the_project_lists(
    tmp_path: Path, ask: Ask, module: str, listed: str, named: str
) -> None:
    (tmp_path / "setup.py").write_text(listed)
    text = f"import torch\nimport {module}\n\nclass Needs(torch.nn.Module):\n    hook = {module}.hook\n"
    write(tmp_path, needs=text)
    asked = missing(ask, tmp_path, "needs.py:Needs")
    assert asked.fact.startswith(f"`{module}`, which ")
    assert "is not installed in" in asked.fact
    assert asked.how.endswith(f"-m pip install {named}")


def test_a_parameter_that_no_caller_tells_is_given_by_a_line(tmp_path: Path, ask: Ask) -> None:
    script = """
    import torch
    from torch import nn

    def build(args):
        model = nn.Sequential(nn.Linear(args.width, 8), nn.ReLU(), nn.Linear(8, 2))
        return model

    def train():
        args = open("settings-that-are-not-there").read()
        model = build(args)
    """
    write(tmp_path, told_by_nobody=script)
    asked = missing(ask, tmp_path, "told_by_nobody.py:5")
    assert "it is a parameter of build, at " in asked.fact
    assert "whose callers don't tell it (line 10: FileNotFoundError" in asked.fact
    assert '# remat: probe(names={"args": …})' in asked.how
    line = '# remat: probe(names={"args": Namespace(width=24)})\n'
    (tmp_path / "told_by_a_line.py").write_text(line + textwrap.dedent(script).lstrip())
    assert "float[batch, 24]" in str(result(ask(tmp_path, "told_by_a_line.py:6")).assumptions)


def test_a_library_of_another_version_is_named_with_the_one_that_is_wanted(tmp_path: Path, ask: Ask) -> None:
    (tmp_path / "requirements.txt").write_text("transformers==4.8.1\ntorch\n")
    text = """
    import torch
    from transformers.modeling_utils import gone_long_ago

    class Old(torch.nn.Module):
        hook = gone_long_ago
    """
    write(tmp_path, old=text)
    asked = missing(ask, tmp_path, "old.py:Old")
    assert "imports of `transformers` is not in the version that is installed (cannot import" in asked.fact
    assert '-m pip install "transformers==4.8.1", the version that the file is written for' in asked.how


def test_a_module_that_a_library_has_no_more_is_named_too(tmp_path: Path, ask: Ask) -> None:
    text = "import torch\nfrom torch._six_of_old import abcs\n\nclass Six(torch.nn.Module):\n    kind = abcs\n"
    write(tmp_path, six_net=text)
    asked = missing(ask, tmp_path, "six_net.py:Six")
    assert "imports of `torch` is not in the version that is installed (No module named" in asked.fact


def test_a_default_dtype_is_that_of_its_own_model_alone(tmp_path: Path, ask: Ask) -> None:
    script = """
    import torch
    from doubled import Doubled

    def main():
        torch.set_default_dtype(torch.float64)
        model = Doubled(8, 2)
    """
    write(tmp_path, doubled=MLP.format(name="Doubled"), train_doubled=script)
    wide = result(ask(tmp_path, "doubled.py:Doubled"))
    config = {"model_type": "gpt2", "n_embd": 64, "n_layer": 1, "n_head": 2, "vocab_size": 100, "n_positions": 32}
    (tmp_path / "config.json").write_text(json.dumps({**config, "architectures": ["GPT2LMHeadModel"]}), "utf-8")
    narrow = result(ask(tmp_path, "hf:."))
    assert wide.by_category["parameters"] == 8 * (8 * 8 + 8 + 2 * 8 + 2)
    assert narrow.by_category["parameters"] == 4 * (100 * 64 + 32 * 64 + 12 * 64 * 64 + 13 * 64 + 2 * 64)


def test_a_file_beside_it_that_cannot_be_read_is_its_own_trouble(tmp_path: Path, ask: Ask) -> None:
    write(tmp_path, healthy=MLP.format(name="Healthy") + "\n    model = Healthy(8, 2)\n")
    (tmp_path / "latin.py").write_bytes("# -*- coding: nothing -*-\n# \xe4".encode("latin-1"))
    assert result(ask(tmp_path, "healthy.py:Healthy")).by_category["parameters"] == 4 * (8 * 8 + 8 + 2 * 8 + 2)
