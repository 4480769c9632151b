"""The models that can be probed are found in a document, in whatever state it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol import types

from remat.lsp.probe_targets import probe_targets

TEXT = """\
import torch
from torch import nn


class Block(nn.Module):
    def forward(self, x):
        return x


# remat: probe(batch=4)
class GPT(Block):  # the model

    def forward(self, x):
        return x


class Config(BaseModel):
    pass


model = AutoModelForCausalLM.from_pretrained("gpt2")
tokenizer = AutoTokenizer.from_pretrained("gpt2")
"""


def found(text: str) -> list[tuple[str, str, int, int]]:
    return [(one.title, one.target, one.line, one.last_line) for one in probe_targets("m.py", text.splitlines())]


def test_module_classes_loading_calls_and_comments_are_targets() -> None:
    assert found(TEXT) == [
        ("Block", "m.py:Block", 4, 6),
        ("GPT", "m.py:GPT", 10, 13),
        ("AutoModelForCausalLM.from_pretrained", "m.py:21", 20, 20),
    ]


def test_a_comment_that_belongs_to_no_class_makes_the_file_a_target() -> None:
    assert found("# remat: probe(model=build())\n\ndef build():\n    pass\n") == [("this file", "m.py", 0, 0)]


@pytest.mark.parametrize("above", ["# remat: probe(batch=4)\n", "# remat: probe(batch=4)\n# a tower\n@final\n"])
def test_a_comment_above_a_class_or_inside_it_has_no_lens_of_its_own(above: str) -> None:
    assert [title for title, *_ in found(f"{above}class A(nn.Module):\n    pass\n")] == ["A"]
    assert [title for title, *_ in found(f"class A(nn.Module):\n    {above.splitlines()[0]}\n    pass\n")] == ["A"]


@pytest.mark.parametrize(
    "text",
    [
        "class A:\n",
        "class A(Exception):\n",
        "class A(BaseModel):\n",
        "x = AutoConfig.from_pretrained('a')\n",
        "# class A(nn.Module):\n",
    ],
)
def test_what_is_no_model_is_none(text: str) -> None:
    assert found(text) == []


@given(st.text(alphabet="class A(nn.Module):\n#from_petaidX.", max_size=200))
def test_no_text_is_too_odd(text: str) -> None:
    for one in probe_targets("m.py", text.splitlines()):
        assert one.line <= one.last_line


async def test_lenses_stand_over_the_models_where_the_editor_can_probe(connect, tmp_path):
    async with connect(tmp_path, options={"probe": True}) as editor:
        editor.open("model.py", TEXT)
        params = types.CodeLensParams(types.TextDocumentIdentifier(editor.uri("model.py")))
        lenses = await editor.client.text_document_code_lens_async(params)
    assert [lens.range.start.line for lens in lenses] == [4, 10, 20]
    assert {lens.command.title for lens in lenses} == {"Probe memory"}
    (first, *_) = lenses
    assert first.command.command == "remat.probe"
    assert first.command.arguments[0]["target"].endswith("model.py:Block")


async def test_an_editor_without_our_commands_is_not_offered_lenses(any_editor):
    assert any_editor.result.capabilities.code_lens_provider is None


async def test_the_palette_is_told_the_targets(any_editor):
    any_editor.open("other.py", TEXT)
    given = {"uri": any_editor.uri("other.py")}
    targets = await any_editor.client.protocol.send_request_async("remat/probeTargets", given)
    assert [target["title"] for target in targets] == ["Block", "GPT", "AutoModelForCausalLM.from_pretrained"]
