"""Whatever the user's code does, the process that asked lives on and hears where it was."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from asking import LINEAR, ask, failure, result, write

from remat.probe import processes, run
from remat.probe.messages import Done, Failure, Progress, Request, Variant

if TYPE_CHECKING:
    from remat.probe.messages import Event

FORWARD = "return self.linear(x)"


def test_an_exception_is_told_with_the_user_s_line(tmp_path: Path) -> None:
    write(tmp_path, net=LINEAR.replace("nn.Linear(8, 8)", "nn.Linear(8, 8) + 1"))
    said = failure(ask(tmp_path, "net.py:Net"))
    assert said.message.startswith("TypeError: unsupported operand")
    assert said.location is not None
    assert (Path(said.location.path).name, said.location.line) == ("net.py", 7)


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("exit(3)", "the code called exit: 3"),
        ("__import__('os')._exit(7)", "the code ended the process itself, with os._exit(7)"),
        ("__import__('os').kill(__import__('os').getpid(), 11)", "ended by SIGSEGV"),
        ("input('name? ')", "EOFError"),
    ],
)
def test_code_that_ends_the_process_is_told_with_its_line(tmp_path: Path, code: str, says: str) -> None:
    write(tmp_path, net=LINEAR.replace("nn.Linear(8, 8)", f"nn.Linear(8, 8); {code}"))
    said = failure(ask(tmp_path, "net.py:Net"))
    assert says in said.message
    assert said.location is not None
    assert said.location.line == 7


def test_code_that_never_ends_is_stopped_and_its_line_told(tmp_path: Path) -> None:
    write(tmp_path, net=LINEAR.replace("nn.Linear(8, 8)", "nn.Linear(8, 8)\n        while True: pass"))
    began = time.monotonic()
    said = failure(ask(tmp_path, "net.py:Net", seconds=40))
    assert said.message.startswith("stopped after 40 s, the limit")
    assert said.location is not None
    assert said.location.line == 8
    assert time.monotonic() - began < 60


def test_code_that_eats_memory_fails_where_it_asks_for_it(tmp_path: Path) -> None:
    eats = "nn.Linear(8, 8)\n        self.held = [bytearray(2**28) for _ in range(64)]"
    write(tmp_path, net=LINEAR.replace("nn.Linear(8, 8)", eats))
    said = failure(ask(tmp_path, "net.py:Net", memory=4 * 2**30))
    assert said.message.startswith(("MemoryError", "stopped because the process used"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_what_the_code_prints_or_forks_is_no_answer(tmp_path: Path) -> None:
    prints = 'print(\'{"event": "Done", "seconds": 1}\', flush=True); __import__("os").system("echo shouting")'
    forks = "if __import__('os').fork() == 0: raise SystemExit"
    write(tmp_path, net=LINEAR.replace(FORWARD, f"{prints}\n        {forks}\n        {FORWARD}"))
    assert result(ask(tmp_path, "net.py:Net")).allocated_bytes > 0


def test_a_cancelled_worker_ends_with_everything_it_started(tmp_path: Path) -> None:
    waits = "__import__('subprocess').run(['sleep', '600'])"
    write(tmp_path, net=LINEAR.replace("nn.Linear(8, 8)", f"nn.Linear(8, 8); {waits}"))
    worker = run.start(sys.executable, tmp_path)
    heard: list[Event] = []

    def listen() -> None:
        heard.extend(run.ask(worker, Request("net.py:Net", (Variant("one"),), str(tmp_path))))

    listening = threading.Thread(target=listen)
    listening.start()
    while listening.is_alive() and not any(isinstance(e, Progress) for e in heard):
        time.sleep(0.2)
        if worker.stage == "build":
            break
    run.cancel(worker)
    listening.join(20)
    run.end(worker)
    assert not run.alive(worker)
    assert [e.message for e in heard if isinstance(e, Failure)] == ["cancelled"]
    assert isinstance(heard[-1], Done)


@pytest.mark.skipif(not hasattr(os, "setsid"), reason="there are no sessions")
def test_what_it_started_in_a_session_of_its_own_is_counted_and_ended_with_it() -> None:
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]], start_new_session=True)"
    inner = "import os, time; held = b'1' * 2**27; print(os.getpid(), flush=True); time.sleep(600)"
    outer = subprocess.Popen([sys.executable, "-c", code, inner], stdout=subprocess.PIPE, start_new_session=True)
    assert outer.stdout is not None
    pid = int(outer.stdout.readline())
    assert processes.memory_of(outer.pid) > 2**27
    processes.end(outer.pid)
    outer.wait(10)
    until = time.monotonic() + 10
    while processes.memory_of(pid) > 2**27 and time.monotonic() < until:
        time.sleep(0.1)
    assert processes.memory_of(pid) < 2**27  # at most a process that nobody has waited for yet


def test_a_python_that_can_t_be_started_is_a_failure(tmp_path: Path) -> None:
    events = list(run.run(Request("net.py", (), str(tmp_path)), str(tmp_path / "no-python")))
    assert "can't be started" in failure(events).message


def test_the_worker_is_offline_and_has_nothing_of_ours_on_its_path() -> None:
    server = str(Path(run.__file__).parent.parent.parent)
    inherited = {"PYTHONPATH": os.pathsep.join([server, "/users/own"]), "PYTHONHOME": "/x"}
    found = run.environment(inherited)
    assert found["PYTHONPATH"] == "/users/own"
    assert "PYTHONHOME" not in found
    assert found["HF_HUB_OFFLINE"] == "1"
