"""`remat/applyPlan`: the server has the editor write a plan into the model's file, or says what to write by hand."""

import pytest
from lsprotocol import types

MODEL = """\
from torch import nn


class Tower(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.blocks = nn.ModuleList([nn.TransformerEncoderLayer(64, 4) for _ in range(depth)])

    def forward(self, x):
        for block in self.blocks:  # é𝄞
            x = block(x)
        return x
"""
BLOCKS = [{"path": "blocks.*", "count": 4, "of": 4}]


def plan(editor, target="tower.py:Tower", way="all"):
    return {"target": target, "folder": str(editor.folder), "way": way, "blocks": BLOCKS}


def takes_edits(editor, *, applied=True):
    taken = []

    @editor.client.feature(types.WORKSPACE_APPLY_EDIT)
    def take(params):
        taken.append(params)
        return types.ApplyWorkspaceEditResult(applied)

    return taken


async def ask(editor, given):
    return await editor.client.protocol.send_request_async("remat/applyPlan", given)


async def test_the_editor_makes_the_edit_and_is_told_what_it_is(any_editor):
    taken = takes_edits(any_editor)
    any_editor.open("tower.py", MODEL)
    answer = await ask(any_editor, plan(any_editor))
    assert answer.applied
    assert answer.line == 12
    assert answer.uri == any_editor.uri("tower.py")
    (params,) = taken
    assert params.label == answer.what == "Every block of `self.blocks` now runs under checkpoint() in training"
    after = any_editor.applied("tower.py", types.CodeAction("", edit=params.edit))
    assert "from torch import nn\nfrom torch.utils.checkpoint import checkpoint\n" in after
    assert "            if self.training:\n                x = checkpoint(block, x, use_reentrant=False)\n" in after


async def test_an_editor_that_refuses_has_changed_nothing(connect, tmp_path):
    async with connect(tmp_path) as editor:
        takes_edits(editor, applied=False)
        editor.open("tower.py", MODEL)
        answer = await ask(editor, plan(editor))
        assert not answer.applied
        assert "nothing was written" in answer.what


async def test_what_cannot_be_written_is_said_with_the_code_to_write(connect, tmp_path):
    async with connect(tmp_path) as editor:
        taken = takes_edits(editor)
        editor.open("tower.py", MODEL.replace("block(x)", "block(block(x))"))
        answer = await ask(editor, plan(editor, way="every-2"))
        assert not answer.applied
        assert answer.what == "The loop calls a block more than once"
        assert "if self.training and i % 2 == 0:" in answer.code
        answer = await ask(editor, plan(editor, "hf:gpt2"))
        assert "gradient_checkpointing_enable(" in answer.code
        assert "Open other.py first" in (await ask(editor, plan(editor, "other.py:Tower"))).what
        assert taken == []


async def test_what_makes_no_sense_is_refused_in_words(connect, tmp_path):
    async with connect(tmp_path) as editor:
        for given, said in [({}, "target"), ({**plan(editor), "blocks": 3}, "list")]:
            with pytest.raises(Exception, match=said):
                await ask(editor, given)


async def test_a_file_that_is_no_snapshot_is_said_so(connect, tmp_path):
    (tmp_path / "other.pickle").write_bytes(b"\x80\x04.")
    async with connect(tmp_path) as editor:
        for name, said in [("other.pickle", "no memory snapshot"), ("missing.pickle", "cannot be read")]:
            with pytest.raises(Exception, match=said):
                await editor.client.protocol.send_request_async("remat/snapshot", {"path": str(tmp_path / name)})
