"""The short way through fake tensors gives what the long way gives."""

from __future__ import annotations

import pytest
import torch
from small_models import MODELS
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from remat.probe.messages import Variant
from remat.probe.simulated import fakes as fakes_module
from remat.probe.simulated import trace as trace_module
from remat.probe.simulated.estimate import simulate
from remat.probe.simulated.quick import run_quickly


def events(name: str, variant: Variant, device: str) -> list[object]:
    traced = simulate(MODELS[name](), variant, device)  # while it lives its model does: the log ends with the steps
    log = traced.log
    return [
        (event, log.allocations[abs(event) - 1].bytes, log.allocations[abs(event) - 1].operator) for event in log.events
    ]


@pytest.mark.parametrize(
    ("name", "device"), [("llama", "cuda"), ("gpt2", "cuda"), ("encoder", "cpu"), ("conv_net", "cpu")]
)
def test_the_short_way_gives_what_the_long_way_gives(name: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    variant = Variant("v", checkpointing="all")
    short = events(name, variant, device)
    for module in (trace_module, fakes_module):
        monkeypatch.setattr(module, "run_quickly", lambda *_: NotImplemented)
    assert events(name, variant, device) == short


def test_an_lstm_is_seen_alike_the_first_time_and_later() -> None:
    """Fakes gave each of its two biases a gradient of its own from the second time on: both have the same one."""
    first, second = (events("lstm", Variant("v"), "cpu") for _ in range(2))
    assert first == second


def test_what_is_made_on_another_device_or_pinned_is_left_to_the_long_way() -> None:
    with FakeTensorMode() as mode:
        here, meta = torch.empty(2, 3), torch.empty(2, 3, device="meta")
        aten, on_meta = torch.ops.aten, {"device": torch.device("meta")}
        assert run_quickly(mode, aten.empty.memory_format, ([2, 3],), on_meta) is NotImplemented
        assert run_quickly(mode, aten.zeros.default, ([2],), {"pin_memory": True}) is NotImplemented
        assert run_quickly(mode, aten.detach.default, (meta,), {}) is NotImplemented
        assert run_quickly(mode, aten._to_copy.default, (here,), on_meta) is NotImplemented
        made = run_quickly(mode, aten.ones.default, ([2, 3],), {"dtype": torch.float16, "device": None})
        assert isinstance(made, FakeTensor)
        assert (made.device.type, made.dtype, made.shape) == ("cpu", torch.float16, (2, 3))
