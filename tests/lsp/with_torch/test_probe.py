"""`remat/probe`: a model is probed in a process of its own, with progress, and can be cancelled."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING

import pytest
from lsprotocol import types

if TYPE_CHECKING:
    from pathlib import Path

MODEL = """\
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(4))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).relu()
        return x


class Broken(Net):
    def forward(self, x):
        raise ValueError("no such luck")


class Endless(Net):
    def forward(self, x):
        while True:
            pass
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "model.py").write_text(MODEL)
    return tmp_path


def asked(project: Path, name: str, **more: object) -> dict[str, object]:
    variants = [{"name": "now"}, {"name": "larger", "batch": 64}]
    target = f"{project / 'model.py'}:{name}"
    return {"token": "t", "target": target, "folder": str(project), "variants": variants, "device": "cpu", **more}


async def ask(editor, given):
    return await editor.client.protocol.send_request_async("remat/probe", given)


async def test_a_model_is_probed_for_each_variant_and_a_warm_worker_is_quicker(connect, project):
    async with connect(project, options={"interpreter": sys.executable}) as editor:
        heard = []
        editor.client.feature("remat/probeProgress")(lambda progress: heard.append(progress))  # noqa: PLW0108 - pygls marks it
        begun = time.perf_counter()
        answer = await ask(editor, asked(project, "Net"))
        cold = time.perf_counter() - begun
        assert answer.failures == []
        assert [variant.name for variant in answer.variants] == ["now", "larger"]
        small, large = answer.variants
        assert small.allocatedBytes < large.allocatedBytes
        assert answer.environment.versions.torch
        assert {card.verdicts[0] for card in answer.cards} == {"fits"}
        assert {progress.token for progress in heard} == {"t"}
        begun = time.perf_counter()
        assert (await ask(editor, asked(project, "Net"))).failures == []
        assert time.perf_counter() - begun < cold


async def test_an_edited_file_is_read_anew(connect, project):
    async with connect(project, options={"interpreter": sys.executable}) as editor:
        before = await ask(editor, asked(project, "Net"))
        editor.open("model.py", MODEL.replace("range(4)", "range(8)"))
        editor.save("model.py")
        after = await ask(editor, asked(project, "Net"))
        assert after.variants[0].allocatedBytes > before.variants[0].allocatedBytes


async def test_a_model_that_raises_is_a_failure_with_the_user_s_line(connect, project):
    async with connect(project, options={"interpreter": sys.executable}) as editor:
        answer = await ask(editor, asked(project, "Broken"))
        assert answer.variants == []
        assert "model.py:17 with ValueError: no such luck" in answer.failures[0].message


async def test_a_cancelled_probe_ends_its_process_and_the_next_one_works(connect, project):
    async with connect(project, options={"interpreter": sys.executable}) as editor:
        running = editor.client.protocol.send_request("remat/probe", asked(project, "Endless"), msg_id="endless")
        await asyncio.sleep(4)
        editor.client.cancel_request(types.CancelParams("endless"))
        with pytest.raises(Exception, match=r"[Cc]ancel"):
            await asyncio.wait_for(asyncio.wrap_future(running), 10)
        assert (await ask(editor, asked(project, "Net"))).failures == []


async def test_what_makes_no_sense_is_refused_in_words(connect, project):
    async with connect(project) as editor:
        for given, said in [({}, "token"), (asked(project, "Net", device="tpu"), "tpu"), ({"token": 3}, "str")]:
            with pytest.raises(Exception, match=said):
                await ask(editor, given)
        answer = await ask(editor, asked(project, "Net", folder="/nowhere"))
        assert answer.failures[0].stage == "import"


@pytest.mark.parametrize(
    ("asked_for", "card", "context"), [("A100", "A100-80GB", (100, 700)), ("abacus", None, (100, 700))]
)
async def test_the_process_is_what_is_reserved_and_the_context_of_the_card(connect, project, asked_for, card, context):
    async with connect(project, options={"interpreter": sys.executable}) as editor:
        answer = await ask(editor, asked(project, "Net", device="cuda", gpu=asked_for))
    (first, _) = answer.variants
    assert answer.gpu == card
    process = first.processBytes
    low, high = (first.reservedBytes + mebibytes * 2**20 for mebibytes in context)
    assert (process.low, process.high) == (low, high)


DEEP = """\
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(64, 256), nn.Linear(256, 64)

    def forward(self, x):
        return x + self.down(self.up(x).relu())


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(4))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x
"""


async def test_a_plan_that_was_probed_is_written_advised_and_then_needs_what_was_said(connect, project):
    (project / "deep.py").write_text(DEEP)
    target = f"{project / 'deep.py'}:Deep"
    sizes = {"batch": 4096, "seq": None}
    async with connect(project, options={"interpreter": sys.executable}) as editor:
        taken = []

        @editor.client.feature(types.WORKSPACE_APPLY_EDIT)
        def take(params):
            taken.append(params)
            return types.ApplyWorkspaceEditResult(applied=True)

        heard = []
        editor.client.feature("remat/probeProgress")(lambda progress: heard.append(progress))  # noqa: PLW0108
        given = {
            "token": "a",
            "target": target,
            "folder": str(project),
            "gpu": "T4",
            "variant": {"name": "now", **sizes},
        }
        advice = await editor.client.protocol.send_request_async("remat/advise", given)
        assert advice.failures == []
        assert advice.gpu == "T4"
        assert advice.fits
        assert "activations" in advice.dominant
        (every,) = [row for row in advice.changes if row.variant.checkpointing == "all"]
        assert every.afterBytes < every.beforeBytes
        assert [(one.path, one.count, one.of) for one in every.plan] == [("blocks.*", 4, 4)]
        assert advice.largestBatch.size > 4096
        assert {progress.token for progress in heard} == {"a"}

        editor.open("deep.py", DEEP)
        blocks = [{"path": one.path, "count": one.count, "of": one.of} for one in every.plan]
        plan = {"target": target, "folder": str(project), "way": "all", "blocks": blocks}
        assert (await editor.client.protocol.send_request_async("remat/applyPlan", plan)).applied
        after = editor.applied("deep.py", types.CodeAction("", edit=taken[0].edit))
        editor.change("deep.py", [types.TextDocumentContentChangeWholeDocument(after)], after)
        editor.save("deep.py")
        variants = [{"name": "now", **sizes}]
        answer = await ask(editor, {**asked(project, "Deep", device="cuda"), "target": target, "variants": variants})
        assert answer.variants[0].allocatedBytes == every.afterBytes
        assert [(one.path, one.count, one.of) for one in answer.plans[0]] == [("blocks.*", 4, 4)]
