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
