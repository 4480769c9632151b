"""`remat/diagnose`: a log in, the report that an editor shows out, joined to the code that the log names."""

from __future__ import annotations

import asyncio
import gzip
import time
from pathlib import Path

import pytest
from pygls.exceptions import JsonRpcException

CODE = """\
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

block = nn.Linear(8, 8)
for parameter in block.parameters():
    parameter.requires_grad_(True)


def step(x):
    return checkpoint(block, x).sum()


step(torch.randn(2, 8)).backward()
"""
LOG = """\
/opt/venv/lib/python3.11/site-packages/torch/utils/checkpoint.py:92: UserWarning: None of the inputs have \
requires_grad=True. Gradients will be None
  warnings.warn(
Traceback (most recent call last):
  File "/mnt/cluster/alice/job/train.py", line 14, in <module>
    step(torch.randn(2, 8)).backward()
  File "/opt/venv/lib/python3.11/site-packages/torch/_tensor.py", line 647, in backward
    torch.autograd.backward(
RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn
"""


async def ask(editor, **given):
    return await editor.client.protocol.send_request_async("remat/diagnose", {"name": "terminal", **given})


def places(editor, found):
    return [(link.uri, link.line) for row in found.log for link in row.links]


async def test_a_report_says_what_failed_and_offers_the_repair_that_the_linter_has_for_it(connect, tmp_path):
    async with connect(tmp_path, "visual_studio_code") as editor:
        (tmp_path / "train.py").write_text(CODE)
        report = await ask(editor, text=LOG)
        assert (report.failed, report.cause.id) == (True, "ckpt.no_input_requires_grad")
        assert report.place.uri == editor.uri("train.py")
        (repair,) = report.repairs
        assert (repair.rule, repair.uri, repair.line) == (
            "checkpoint-without-use-reentrant", editor.uri("train.py"), 10,
        )  # fmt: skip
        assert repair.title
        assert repair.safe
        assert places(editor, report) == [(editor.uri("train.py"), 14)]
        assert [row.number for row in report.log] == list(range(1, report.lineCount + 1))
        assert {row.number for row in report.log if row.proves} >= set(report.cause.lines)


async def test_what_is_open_and_not_saved_counts_more_than_the_disk(connect, tmp_path):
    async with connect(tmp_path, "visual_studio_code") as editor:
        (tmp_path / "train.py").write_text(CODE)
        editor.open("train.py", CODE.replace("checkpoint(block, x)", "checkpoint(block, x, use_reentrant=False)"))
        report = await ask(editor, text=LOG)
        assert report.repairs == []


async def test_logs_are_read_from_files_and_folders_as_one_run(connect, tmp_path):
    async with connect(tmp_path, "visual_studio_code") as editor:
        folder = tmp_path / "logs" / "attempt_0"
        for rank in (0, 1):
            (folder / str(rank)).mkdir(parents=True)
            (folder / str(rank) / "stderr.log").write_text(LOG if rank == 1 else "step 1\n")
        report = await ask(editor, paths=[str(tmp_path / "logs")])
        assert (report.cause.id, report.rank) == ("ckpt.no_input_requires_grad", 1)


async def test_a_report_says_where_each_file_of_the_run_begins(connect, tmp_path):
    async with connect(tmp_path, "visual_studio_code") as editor:
        for rank, text in enumerate(["step 1\nstep 2\n", LOG]):
            (tmp_path / "logs" / f"rank{rank}").mkdir(parents=True)
            (tmp_path / "logs" / f"rank{rank}" / "out.log").write_text(text)
        report = await ask(editor, paths=[str(tmp_path / "logs")])
        files = [(file.name, file.firstLine) for file in report.files]
        assert files == [(str(Path("rank0", "out.log")), 1), (str(Path("rank1", "out.log")), 3)]
        assert "lines from 3 on: rank1/out.log" in report.markdown
        alone = await ask(editor, paths=[str(tmp_path / "logs" / "rank1" / "out.log")])
        assert alone.files == []
        both = await ask(editor, text="$ python train.py\nstep 1", paths=[str(tmp_path / "logs" / "rank1" / "out.log")])
        assert [(file.name, file.firstLine) for file in both.files] == [("out.log", 3)]


async def test_what_holds_no_text_is_refused_in_words(connect, tmp_path):
    async with connect(tmp_path, "visual_studio_code") as editor:
        zipped = tmp_path / "run.log.gz"
        zipped.write_bytes(gzip.compress(LOG.encode() * 40))
        for given, said in [({"text": " \n"}, "it is empty"), ({"paths": [str(zipped)]}, "gunzip -c")]:
            with pytest.raises(JsonRpcException, match=said):
                await ask(editor, **given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "expected a text or at least one path"),
        ({"text": 3}, "expected text to be a string"),
        ({"paths": ["/nowhere/at/all.log"]}, "/nowhere/at/all.log cannot be read: No such file or directory"),
    ],
)
async def test_what_cannot_be_diagnosed_is_refused_in_words(any_editor, given, said):
    with pytest.raises(JsonRpcException, match=said):
        await ask(any_editor, **given)


async def test_evidence_outside_the_workspace_waits_for_permission(connect, tmp_path):
    (tmp_path / "project").mkdir()
    error = tmp_path / "elsewhere" / "attempt_0" / "1" / "error.json"
    error.parent.mkdir(parents=True)
    error.with_name("stderr.log").write_text(LOG)
    log = f"""\
[rank0]: step 1
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-01-01_10:00:00
  host      : node
  rank      : 1 (local_rank: 1)
  exitcode  : 1 (pid: 77)
  error_file: {error}
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
"""
    error.write_text("{}")
    async with connect(tmp_path / "project", "visual_studio_code") as editor:
        report = await ask(editor, text=log)
        assert [one.read for one in report.evidence] == [False, False]
        allowed = [one.path for one in report.evidence]
        report = await ask(editor, text=log, permitted=allowed)
        assert [one.read for one in report.evidence] == [True, True]
        assert (report.cause.id, report.rank) == ("ckpt.no_input_requires_grad", 1)


async def test_nothing_that_a_log_holds_acts_in_what_is_shown_or_sent(any_editor):
    hostile = "\x1b]8;;command:evil\x07click\x1b]8;;\x07 \u202egnp.exe <script>alert(1)</script> ```\n"
    last = "ValueError: hf_abcdefghijklmnopqrstuv was refused\n"
    report = await ask(any_editor, text=hostile + LOG.replace("alice", "</pre>").rpartition("RuntimeError")[0] + last)
    shown = "".join(row.text for row in report.log)
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "was refused" in report.markdown
    assert "hf_abcdef" not in report.markdown.replace("\\", "")


async def test_typing_stays_quick_while_a_large_log_is_read(any_editor):
    large = "".join(f"[rank{n % 8}]: step {n} loss {n / 7:.3f}\n" for n in range(200_000)) + LOG
    waiting = asyncio.ensure_future(ask(any_editor, text=large))
    any_editor.open("beside.py", "from torch.utils.checkpoint import checkpoint\ny = checkpoint(f, x)\n")
    begun = time.perf_counter()
    assert await any_editor.findings("beside.py")
    assert time.perf_counter() - begun < 5
    assert (await waiting).cause.id == "ckpt.no_input_requires_grad"
