"""A measurement is the real step: on the CPU it agrees with the estimate, and it says what stands in its way."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
import torch
from small_models import MODELS, perceptron
from torch import nn
from torch.utils._python_dispatch import _get_current_dispatch_mode

from remat.probe.built import Built, Inputs
from remat.probe.lines import event_line, read_event
from remat.probe.measured.measurable import CannotMeasureError, device_here, why_not
from remat.probe.measured.measure import measure
from remat.probe.messages import Limits, Variant, VariantResult
from remat.probe.simulated.estimate import estimate

NONE = Variant("none", checkpointing="none")
ALL = Variant("all", checkpointing="all")


def both(name: str, variant: Variant) -> tuple[VariantResult, VariantResult]:
    expected = estimate(MODELS[name](), variant, "cpu")
    return expected, measure(MODELS[name](), variant, "cpu", Limits(), expected)


@pytest.mark.parametrize(
    ("name", "variant"),
    [("perceptron", ALL), ("conv_net", NONE), ("gpt2", replace(ALL, reentrant=True)), ("lstm", NONE)],
)
def test_the_measurement_on_the_cpu_is_the_quantity_that_the_estimate_predicts(name: str, variant: Variant) -> None:
    expected, came = both(name, variant)
    assert (expected.kind, came.kind) == ("estimated", "measured")
    assert expected.allocated_bytes == pytest.approx(came.allocated_bytes, rel=0.002)
    assert expected.peak_phase == came.peak_phase
    for one, other in zip(expected.phases, came.phases, strict=True):
        assert one.phase == other.phase
        assert one.allocated_bytes == pytest.approx(other.allocated_bytes, rel=0.01)


def test_what_an_earlier_measurement_left_and_this_one_frees_does_not_count() -> None:
    alone = measure(MODELS["perceptron"](), NONE, "cpu", Limits())
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True):
        left = [torch.zeros(1 << 20)]
    built = MODELS["perceptron"]()

    def batch_that_frees(model: nn.Module, size: int | None, seq: int | None) -> Inputs:
        left.clear()
        return built.make_batch(model, size, seq)

    came = measure(replace(built, make_batch=batch_that_frees), NONE, "cpu", Limits())
    assert (came.allocated_bytes, came.phases) == (alone.allocated_bytes, alone.phases)


def test_it_tells_what_was_saved_where_and_what_was_recomputed() -> None:
    expected, came = both("perceptron", ALL)
    assert came.checkpointed == expected.checkpointed
    assert came.active
    assert came.by_module == expected.by_module
    assert came.by_line == expected.by_line
    assert sum(came.by_category.values()) == came.allocated_bytes
    assert came.timeline.points


def test_the_time_of_a_step_is_the_median_of_five_and_leaves_out_the_batch() -> None:
    made = []

    def slow_batch(model: nn.Module, batch: int | None, seq: int | None) -> Inputs:
        made.append(time.sleep(0.2))
        return Inputs((torch.randn(4, 16),))

    built = Built(lambda: nn.Linear(16, 16), slow_batch, lambda out, _: out.sum())
    came = measure(built, NONE, "cpu", Limits())
    assert len(made) >= 7
    assert came.step_seconds is not None
    assert came.step_seconds_range is not None
    assert came.step_seconds_range.low <= came.step_seconds <= came.step_seconds_range.high < 0.2


def test_it_travels_as_a_line() -> None:
    came = measure(perceptron(), replace(NONE, batch=8), "cpu", Limits())
    assert read_event(event_line(came)) == came


def test_gradients_that_accumulate_count_into_one_step() -> None:
    came = measure(perceptron(), replace(NONE, batch=8, grad_accum=3), "cpu", Limits())
    assert came.step_seconds is not None
    assert came.step_seconds > 0
    assert came.phases[-1].phase == "optimizer"


# ---- what stands in the way


def test_without_a_gpu_it_says_what_was_looked_for_and_what_to_do() -> None:
    assert why_not("cpu") is None
    assert (why_not("cuda") is None) == torch.cuda.is_available()
    if torch.cuda.is_available():
        return
    with pytest.raises(CannotMeasureError, match="CUDA") as caught:
        device_here("cuda")
    assert torch.__version__ in str(caught.value)
    assert "estimate" in caught.value.how


def test_an_optimizer_that_stands_for_a_size_is_not_measured() -> None:
    with pytest.raises(CannotMeasureError, match="adamw-8bit"):
        measure(perceptron(), Variant("8-bit", optimizer="adamw-8bit"), "cpu", Limits())


def test_a_run_that_is_expected_to_make_the_machine_swap_is_not_begun() -> None:
    expected = replace(estimate(perceptron(), NONE, "cpu"), allocated_bytes=2**50)
    with pytest.raises(CannotMeasureError, match=r"expected to need 1048576\.00 GiB; .* GiB are free"):
        measure(perceptron(), NONE, "cpu", Limits(), expected)


def test_a_step_that_finds_no_room_is_reported_with_its_phase() -> None:
    def grow(out: object, _: Inputs) -> torch.Tensor:
        return out.sum() + torch.empty(2**50, dtype=torch.uint8).sum()

    built = replace(perceptron(), make_loss=grow)
    with pytest.raises(CannotMeasureError, match="forward of step 1 ran out of memory") as caught:
        measure(built, NONE, "cpu", Limits())
    assert "--batch" in caught.value.how


def test_a_step_that_takes_too_long_is_stopped_between_phases() -> None:
    def wait(out: object, _: Inputs) -> torch.Tensor:
        time.sleep(0.3)
        return out.sum()

    with pytest.raises(CannotMeasureError, match=r"longer than 0\.5 s; it was at: .* of step") as caught:
        measure(replace(perceptron(), make_loss=wait), NONE, "cpu", Limits(seconds=0.5))
    assert "more time" in caught.value.how


def test_what_the_users_model_raises_comes_through() -> None:
    def fail(out: object, _: Inputs) -> torch.Tensor:
        raise KeyError("labels")

    with pytest.raises(KeyError):
        measure(replace(perceptron(), make_loss=fail), NONE, "cpu", Limits())


class NeverTraced(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if _get_current_dispatch_mode() is not None:
            raise RuntimeError("not under a mode")
        return super().forward(x)


def test_the_figures_stand_where_the_step_can_not_be_traced() -> None:
    batch = Inputs((torch.randn(4, 16),))
    built = Built(lambda: NeverTraced(16, 16), lambda *_: batch, lambda out, _: out.sum())
    came = measure(built, NONE, "cpu", Limits())
    assert came.allocated_bytes > 0
    assert came.by_category == {}
    assert any("not under a mode" in text for text in came.assumptions)
