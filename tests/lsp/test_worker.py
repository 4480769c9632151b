"""The analysis thread: newest first, nothing waits for ever, nothing ends it."""

import asyncio
import threading
import time

from pygls.workspace import PositionCodec

from remat.lsp.analyst import Analyst
from remat.lsp.documents import Document
from remat.lsp.session import Session
from remat.lsp.worker import Worker


def done(event):
    return event.wait(10)


def test_only_the_newest_of_a_burst_runs():
    worker, ran, last = Worker(print), [], threading.Event()
    for n in range(50):
        worker.submit("a", lambda _, n=n: (ran.append(n), n == 49 and last.set()), 0.02)
    assert done(last)
    assert ran == [49]
    assert worker.stop(1)


def test_a_running_job_is_told_when_a_newer_one_comes():
    worker, begun, told = Worker(print), threading.Event(), threading.Event()

    def job(is_current):
        begun.set()
        while is_current():
            time.sleep(0.001)
        told.set()

    worker.submit("a", job)
    assert done(begun)
    worker.submit("b", lambda _: None)
    assert not told.wait(0.05)  # another key's job is no reason
    worker.submit("a", lambda _: None)
    assert done(told)
    assert worker.stop(1)


def test_a_dropped_job_does_not_run():
    worker, ran, other = Worker(print), [], threading.Event()
    worker.submit("a", lambda _: ran.append("a"), 0.02)
    worker.submit("b", lambda _: other.set(), 0.05)
    worker.drop("a")
    assert done(other)
    assert ran == []
    assert worker.stop(1)


def test_a_job_that_raises_is_reported_and_the_next_one_runs():
    errors, after = [], threading.Event()
    worker = Worker(errors.append)
    worker.submit("a", lambda _: 1 / 0)
    worker.submit("b", lambda _: after.set(), 0.01)
    assert done(after)
    assert [type(e) for e in errors] == [ZeroDivisionError]
    assert worker.stop(1)


def test_stopping_says_whether_a_job_goes_on_regardless():
    worker, begun, release = Worker(print), threading.Event(), threading.Event()
    worker.submit("a", lambda _: (begun.set(), release.wait(10)))
    assert done(begun)
    assert not worker.stop(0.01)
    release.set()
    assert worker.stop(5)


async def test_an_analysis_that_fails_is_logged_once_and_who_waits_gets_an_answer():
    """An analyst without options cannot read surroundings: a fault of ours, as any other would be."""
    document = Document("file:///a.py", "checkpoint(f, x)\n", 1, "python", position_codec=PositionCodec())
    shown, unexpected = [], []
    session = Session(
        Analyst(print, print),
        lambda _: document,
        lambda result, edited: shown.append((result.findings, edited)),
        lambda error, doing: unexpected.append((type(error), doing)),
    )
    session.opened(document)
    result = await asyncio.wait_for(session.result(document), 20)
    assert result.findings == ()
    assert shown == [((), True)]
    assert unexpected == [(AttributeError, "analysing file:///a.py")]
    assert session.end(1)
