"""The short way through fake tensors gives what the long way gives."""

from __future__ import annotations

import pytest
from small_models import MODELS

from remat.probe.messages import Variant
from remat.probe.simulated import trace as trace_module
from remat.probe.simulated.estimate import simulate


def events(name: str, variant: Variant, device: str) -> list[tuple[int, int, str]]:
    log = simulate(MODELS[name](), variant, device).log
    return [
        (event, log.allocations[abs(event) - 1].bytes, log.allocations[abs(event) - 1].operator) for event in log.events
    ]


@pytest.mark.parametrize(
    ("name", "device"), [("llama", "cuda"), ("gpt2", "cuda"), ("encoder", "cpu"), ("conv_net", "cpu")]
)
def test_the_short_way_gives_what_the_long_way_gives(name: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    variant = Variant("v", checkpointing="all")
    short = events(name, variant, device)
    monkeypatch.setattr(trace_module, "run_quickly", lambda *_: NotImplemented)
    assert events(name, variant, device) == short
