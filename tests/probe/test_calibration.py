"""What is known of a GPU comes from measurements on it, is kept in the user's cache, and never stops anything."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from remat.probe.calibration import (
    Calibration,
    Comparison,
    Constants,
    agreement,
    constants_of,
    default_path,
    load,
    save,
    with_comparison,
    with_constants,
)
from remat.probe.gpus import as_measured, card
from remat.probe.messages import Range
from remat.probe.simulated.estimate import estimate
from remat.probe.simulated.self_check import SMALL, SMALL_VARIANT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MIB = 2**20
T4 = Constants("Tesla T4", "2.13.0", "580.1", Range(105 * MIB, 105 * MIB), 8 * MIB)
ROW = Comparison("train.py:GPT", "none", "Tesla T4", "2.13.0", 990, 1000, 2000, 2100)


def test_measurements_of_one_gpu_widen_the_range_and_others_stand_beside_it() -> None:
    known = with_constants(Calibration(), T4)
    known = with_constants(known, replace(T4, context_bytes=Range(141 * MIB, 141 * MIB), workspace_bytes=None))
    known = with_constants(known, replace(T4, gpu="NVIDIA L4"))
    (t4, l4) = known.constants
    assert (t4.context_bytes, t4.workspace_bytes, t4.measurements) == (Range(105 * MIB, 141 * MIB), 8 * MIB, 2)
    assert (l4.gpu, l4.measurements) == ("NVIDIA L4", 1)


def test_the_same_torch_is_preferred_and_an_unknown_gpu_stays_unknown() -> None:
    newer = replace(T4, torch="2.14.1", context_bytes=Range(200 * MIB, 200 * MIB))
    known = with_constants(with_constants(Calibration(), T4), newer)
    assert constants_of(known, "Tesla T4", "2.13.0") == T4
    assert constants_of(known, "Tesla T4", "2.9.0") == newer
    assert constants_of(known, "NVIDIA H200") is None


def test_how_near_estimates_were_is_told_for_each_device() -> None:
    known = Calibration()
    for variant, estimated in (("none", 990), ("all", 1040), ("every-2", 1000)):
        known = with_comparison(known, replace(ROW, variant=variant, estimated_allocated=estimated))
    found = agreement(known, "Tesla T4")
    assert found is not None
    assert (found.comparisons, found.median, found.worst) == (3, pytest.approx(0.01), pytest.approx(0.04))
    assert agreement(known, "cpu") is None


def test_the_same_steps_measured_again_count_once_and_old_ones_go() -> None:
    known = with_comparison(with_comparison(Calibration(), ROW), replace(ROW, measured_allocated=1001))
    assert [item.measured_allocated for item in known.comparisons] == [1001]
    for number in range(600):
        known = with_comparison(known, replace(ROW, variant=str(number)))
    assert len(known.comparisons) == 500
    assert known.comparisons[-1].variant == "599"


def test_it_comes_back_from_the_file(tmp_path: Path) -> None:
    known = with_comparison(with_constants(Calibration(), T4), ROW)
    path = tmp_path / "new" / "measurements.json"
    assert save(path, known)
    assert load(path) == known
    assert [file.name for file in path.parent.iterdir()] == ["measurements.json"]


def other_version(path: Path) -> None:
    path.write_text('{"version": 99, "constants": [], "comparisons": []}')


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_text("{"),
        lambda path: path.write_text("[]"),
        lambda path: path.write_text('{"version": 1, "constants": [{"gpu": "T4"}], "comparisons": []}'),
        lambda path: path.write_bytes(b"\xff\xfe"),
        lambda path: path.mkdir(),
        lambda path: path.unlink(missing_ok=True),
        other_version,
    ],
)
def test_a_file_that_is_missing_or_spoilt_means_nothing_is_known(
    spoil: Callable[[Path], object], tmp_path: Path
) -> None:
    path = tmp_path / "measurements.json"
    spoil(path)
    assert load(path) == Calibration()


def test_a_cache_that_can_not_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert not save(tmp_path / "file" / "measurements.json", Calibration())


def test_the_users_cache_can_be_put_elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REMAT_CACHE_DIR", str(tmp_path))
    assert default_path() == tmp_path / "measurements.json"
    monkeypatch.delenv("REMAT_CACHE_DIR")
    assert default_path().name == "measurements.json"
    assert default_path().parent.name == "remat"


def test_a_card_has_the_context_that_was_measured_here() -> None:
    h200 = card("H200")
    assert h200 is not None
    known = with_constants(Calibration(), replace(T4, gpu="NVIDIA H200", context_bytes=Range(530 * MIB, 560 * MIB)))
    assert as_measured(h200, known).context == Range(530 * MIB, 560 * MIB)
    assert as_measured(h200, Calibration()) == h200
    other = card("L4")
    assert other is not None
    assert as_measured(other, known) == other


def test_an_estimate_counts_the_context_that_was_measured_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REMAT_CACHE_DIR", str(tmp_path))
    before = estimate(SMALL, SMALL_VARIANT, "cuda", "T4")
    save(default_path(), with_constants(Calibration(), replace(T4, context_bytes=Range(300 * MIB, 310 * MIB))))
    after = estimate(SMALL, SMALL_VARIANT, "cuda", "T4")
    assert after.reserved_bytes == before.reserved_bytes
    assert after.reserved_bytes is not None
    assert after.process_bytes == Range(after.reserved_bytes + 300 * MIB, after.reserved_bytes + 310 * MIB)
    assert before.process_bytes != after.process_bytes
