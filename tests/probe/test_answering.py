"""What a worker answers in each mode, what it writes beside, and what it remembers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from small_models import perceptron

from remat.probe import calibration
from remat.probe.answering import Answers
from remat.probe.measured.measurable import CannotMeasureError
from remat.probe.messages import Request, Unmeasured, Variant, VariantResult
from remat.probe.recorded import read_snapshot

if TYPE_CHECKING:
    from pathlib import Path

    from remat.probe.messages import Event

NONE = Variant("none", checkpointing="none", batch=16)
ALL = Variant("all", checkpointing="all", batch=16)


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("REMAT_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "measurements.json"


def asked(request: Request, variant: Variant = NONE) -> list[Event]:
    return list(Answers(perceptron(), request).of(variant, perceptron(), lambda: None))


def kinds(events: list[Event]) -> list[str]:
    return [event.kind if isinstance(event, VariantResult) else type(event).__name__ for event in events]


def test_auto_answers_with_the_estimate_and_the_measurement_beside_it() -> None:
    request = Request("models.py:Perceptron", (NONE,), device="cpu")
    assert kinds(asked(request)) == ["estimated"]
    assert kinds(asked(replace(request, mode="measure"))) == ["measured"]
    assert kinds(asked(replace(request, mode="auto"))) == ["estimated", "measured"]


def test_what_cannot_be_measured_is_an_error_only_where_a_measurement_was_asked_for() -> None:
    eight_bit = replace(NONE, optimizer="adamw-8bit")
    request = Request("models.py:Perceptron", (eight_bit,), device="cpu", mode="auto")
    first, note = asked(request, eight_bit)
    assert isinstance(first, VariantResult)
    assert isinstance(note, Unmeasured)
    assert "adamw-8bit" in note.why
    with pytest.raises(CannotMeasureError):
        asked(replace(request, mode="measure"), eight_bit)


def test_without_a_gpu_auto_says_why_there_is_an_estimate_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    first, note = asked(Request("models.py:Perceptron", (NONE,), device="cuda", mode="auto"))
    assert isinstance(first, VariantResult)
    assert isinstance(note, Unmeasured)
    assert "torch" in note.why


def test_how_near_the_estimate_was_is_remembered(cache: Path) -> None:
    asked(Request("models.py:Perceptron", (NONE,), folder="/project", device="cpu", mode="auto"))
    (known,) = calibration.load(cache).comparisons
    assert (known.target, known.on) == ("/project/models.py:Perceptron", "cpu")
    found = calibration.agreement(calibration.load(cache), "cpu")
    assert found is not None
    assert found.median < 0.001


def test_snapshots_have_a_file_for_each_result(tmp_path: Path) -> None:
    request = Request("m.py:P", (NONE,), str(tmp_path), "cpu", snapshot="out.pickle")
    asked(request)
    asked(replace(request, variants=(NONE, ALL), mode="auto"), ALL)
    names = sorted(path.name for path in tmp_path.glob("*.pickle"))
    assert names == ["out-all-measured.pickle", "out-all.pickle", "out.pickle"]
    peaks = [max(map(sum, read_snapshot(tmp_path / name).points)) for name in names]
    assert peaks[0] == pytest.approx(peaks[1], rel=0.01)
