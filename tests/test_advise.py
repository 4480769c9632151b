"""Advice is simulated before it is given: checked on a model whose memory is known in closed form."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remat.probe.advise import changes, fewest_blocks, largest_batch, plan, why_checkpointing_does_not_help
from remat.probe.gpus import GIB, Card, Verdict, verdict
from remat.probe.gpus import card as named_card
from remat.probe.messages import Range, Recomputed, Timeline, Variant, VariantResult

BLOCKS = 12


@dataclass
class Model:
    """Bytes: `state` whatever is done, `temporary` in an optimizer step that is not fused, `block` for each sample."""

    state: float
    temporary: float
    block: float
    asked: list[str] = field(default_factory=list)

    def __call__(self, *variants: Variant) -> list[VariantResult | None]:
        return [self.of(variant) for variant in variants]

    def of(self, variant: Variant) -> VariantResult | None:
        self.asked.append(variant.name)
        how, batch = variant.checkpointing, variant.batch or 1
        if how == "selective":
            return None
        count = {"as-written": 0, "none": 0, "all": BLOCKS}.get(how, 0)
        count = int(how[6:]) if how.startswith("first-") else count
        saved = self.block * batch * (BLOCKS - count) + self.block * batch * 0.1 * count
        backward = self.state + saved + (self.block * batch if count else 0)
        step = self.state + (0 if variant.optimizer == "adamw-fused" else self.temporary)
        phase, peak = max([("backward", backward), ("optimizer", step)], key=lambda item: item[1])
        held = {
            "parameters": int(self.state),
            ("temporaries" if phase == "optimizer" else "activations"): int(peak - self.state),
        }
        return result(variant.name, int(peak), int(saved), phase, held, count)


def result(name: str, peak: int, saved: int, phase: str, held: dict[str, int], count: int) -> VariantResult:
    return VariantResult(
        name=name,
        kind="estimated",
        allocated_bytes=peak,
        reserved_bytes=peak,
        process_bytes=None,
        peak_phase=phase,
        phases=(),
        saved_activation_bytes=saved,
        by_category=held,
        by_line=(),
        by_module=(),
        recompute_flops_ratio=Range(1, 1),
        step_seconds=None,
        checkpointed=(Recomputed("blocks.*", "Block", count),) if count else (),
        not_checkpointed=(),
        active=count > 0,
        inactive_because=None,
        assumptions=(),
        verified=True,
        timeline=Timeline((), (), (), (), (), 0),
    )


def card(gib: float) -> Card:
    return Card("test", int(gib * GIB), Range(0, 0))


BASE = Variant("as-written")


def test_where_the_optimizer_makes_the_peak_fusing_it_comes_before_checkpointing() -> None:
    model = Model(state=20 * GIB, temporary=15 * GIB, block=GIB)
    (first, *_) = changes(model, BASE)
    assert first.variant.optimizer == "adamw-fused"
    sentence = why_checkpointing_does_not_help(model, BASE)
    assert sentence is not None
    assert "the peak stays" in sentence
    assert sentence.endswith("it is in optimizer, with 15.0 GiB of temporaries")


def test_where_activations_make_the_peak_checkpointing_is_the_change_and_needs_no_excuse() -> None:
    model = Model(state=2 * GIB, temporary=GIB, block=3 * GIB)
    (first, *_) = changes(model, BASE)
    assert first.variant.checkpointing == "all"
    assert why_checkpointing_does_not_help(model, BASE) is None


def test_a_plan_ends_where_the_step_fits_and_each_of_its_steps_was_simulated() -> None:
    model = Model(state=20 * GIB, temporary=15 * GIB, block=GIB)
    steps = plan(model, BASE, card(26))
    assert [step.variant.optimizer for step in steps] == ["adamw-fused", "adamw-fused"]
    assert steps[-1].variant.checkpointing == "all"
    assert verdict(steps[-1].after, card(26)) is Verdict.FITS
    assert all(step.gain > 0 for step in steps)


def test_what_fits_already_needs_no_plan_and_what_nothing_helps_gets_none() -> None:
    assert plan(Model(GIB, 0, 0.01 * GIB), BASE, card(24)) == []
    assert plan(Model(90 * GIB, 0, 0), BASE, card(24)) == []


@given(st.floats(0.5, 20), st.floats(0.001, 1.5), st.floats(8, 90))
def test_the_largest_batch_fits_and_the_next_does_not(state: float, block: float, gib: float) -> None:
    model = Model(state * GIB, 0, block * GIB)
    found = largest_batch(model, BASE, card(gib))
    assert found is not None
    if found.size == 0:
        assert verdict(model.of(replace(BASE, batch=1)), card(gib)) is not Verdict.FITS  # type: ignore[arg-type]
        assert found.minimum_bytes
    else:
        assert verdict(model.of(replace(BASE, batch=found.size)), card(gib)) is Verdict.FITS  # type: ignore[arg-type]
        assert verdict(model.of(replace(BASE, batch=found.size + 1)), card(gib)) is not Verdict.FITS  # type: ignore[arg-type]


def test_the_largest_batch_takes_few_simulations() -> None:
    model = Model(5 * GIB, 0, 0.013 * GIB)
    found = largest_batch(model, BASE, card(79))
    assert found is not None
    assert len(set(model.asked)) <= 6


@pytest.mark.parametrize("gib", [8, 12, 17, 21, 25, 29])
def test_the_fewest_blocks_fit_and_one_block_less_does_not(gib: int) -> None:
    model = Model(5 * GIB, 0, 2 * GIB)
    found = fewest_blocks(model, BASE, card(gib))
    assert found is not None
    if found.infeasible:
        assert verdict(found.result, card(gib)) is not Verdict.FITS
        return
    assert verdict(found.result, card(gib)) is Verdict.FITS
    fewer = model.of(replace(BASE, checkpointing=f"first-{found.count - 1}" if found.count > 1 else "none"))
    assert fewer is not None
    assert verdict(fewer, card(gib)) is not Verdict.FITS


def test_a_model_without_blocks_or_that_fits_as_it_is_gets_no_plan_of_blocks() -> None:
    assert fewest_blocks(Model(GIB, 0, 0.001), BASE, card(24)) is None


def test_a_card_without_bf16_cores_is_advised_fp16_with_a_grad_scaler() -> None:
    def half(*variants: Variant) -> list[VariantResult | None]:
        model = Model(state=GIB, temporary=0, block=GIB)
        return [model.of(v) if v.autocast is None else model.of(replace(v, batch=1)) for v in variants]

    base = replace(BASE, batch=8)
    turing = {c.variant.autocast for c in changes(half, base, named_card("T4")) if c.variant.autocast}
    ampere = {c.variant.autocast for c in changes(half, base, named_card("A10")) if c.variant.autocast}
    assert (turing, ampere) == ({"fp16"}, {"bf16"})
    assert not any(c.variant.dtype for c in changes(half, base, named_card("T4")))
