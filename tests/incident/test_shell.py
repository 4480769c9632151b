"""Only Remat's own command is offered to run, never one that the log could bend."""

from __future__ import annotations

import re

import pytest

from remat.diagnose.signatures import KINDS, SIGNATURES
from remat.incident.shell import runnable


def filled(kind: str, fact: str) -> str:
    command = re.sub(r"(?<!\{)\{\w+\}(?!\})", lambda _: fact, KINDS[kind].verify)
    assert fact in command
    return command


def test_a_command_with_plain_facts_runs() -> None:
    for kind, fact in (("dist.port_in_use", "29500"), ("io.permission", "/data/a.pt")):
        assert runnable(KINDS[kind], filled(kind, fact))


@pytest.mark.parametrize("fact", ["29500; rm -rf ~", "$(id)", "`id`", "1 | sh", "1\nid", "1 && id", "> x"])
def test_a_fact_that_a_shell_would_act_on_is_not_run(fact: str) -> None:
    assert not runnable(KINDS["dist.port_in_use"], filled("dist.port_in_use", fact))


def test_prose_is_no_command() -> None:
    assert not runnable(KINDS["autograd.backward_twice"], KINDS["autograd.backward_twice"].verify)


@pytest.mark.parametrize("signature", [s for s in SIGNATURES if s.runnable], ids=lambda s: s.id)
def test_a_runnable_check_has_nothing_left_to_fill_in(signature) -> None:
    assert re.findall(r"(?<![$\w])(?:PID|FILE|DIR|HOST|PORT|REPO)\b|\.\.\.", signature.verify) == []
