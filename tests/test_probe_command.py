"""`remat probe`: its options, its verdicts and what it prints, without a worker."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

from remat.probe.gpus import CARDS, GIB, NCCL, Verdict, budget, bytes_of, card, process_bytes, verdict
from remat.probe.messages import (
    Environment,
    Failure,
    Location,
    Missing,
    PhasePeak,
    Range,
    RankFigures,
    Recomputed,
    Timeline,
    VariantResult,
)
from remat.probe_options import asked
from remat.probe_options import options as probe_options
from remat.render.probe import Probed, as_json, as_text

if TYPE_CHECKING:
    from remat.probe.gpus import Card
    from remat.probing import Asked

RESULT = VariantResult(
    name="all",
    kind="estimated",
    allocated_bytes=10 * GIB,
    reserved_bytes=11 * GIB,
    process_bytes=None,
    peak_phase="backward",
    phases=(PhasePeak("backward", 10 * GIB),),
    saved_activation_bytes=4 * GIB,
    by_category={"parameters": 6 * GIB, "activations": 4 * GIB},
    by_line=(),
    by_module=(),
    recompute_flops_ratio=Range(1.2, 1.3),
    step_seconds=None,
    checkpointed=(Recomputed("layers.*", "Block", 4),),
    not_checkpointed=(),
    active=True,
    inactive_because=None,
    assumptions=("a batch of 1 (--batch)",),
    verified=True,
    timeline=Timeline((), (), (), (), (), 0),
)


def probed(**changes: object) -> Probed:
    environment = Environment("/usr/bin/python", {"torch": "2.13.0"})
    whole = Probed("net.py:Net", "cuda", environment, 1.5, (RESULT,), ())
    return replace(whole, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "size"), [("24GiB", 24 * GIB), ("24 GB", 24 * 10**9), ("1.5gib", 3 * GIB // 2), ("25769803776", 24 * GIB)]
)
def test_sizes_are_read_as_people_write_them(text: str, size: int) -> None:
    assert bytes_of(text) == size


@pytest.mark.parametrize("text", ["24", "lots", "-3GiB", "3 XB", ""])
def test_a_size_that_means_nothing_says_what_was_expected(text: str) -> None:
    with pytest.raises(ValueError, match="expected a size"):
        budget(text)


@pytest.mark.parametrize(
    ("text", "name"),
    [("t4", "T4"), ("NVIDIA GeForce RTX 4090", "RTX 4090"), ("A100", "A100-80GB"), ("NVIDIA H100 80GB HBM3", "H100")],
)
def test_cards_are_known_by_the_names_people_and_drivers_use(text: str, name: str) -> None:
    found = card(text)
    assert found is not None
    assert found.name == name


def test_a_verdict_leaves_room_for_what_estimates_can_t_know() -> None:
    assert verdict(RESULT, budget("16GiB")) is Verdict.FITS
    assert verdict(RESULT, budget("12GiB")) is Verdict.TOO_CLOSE
    assert verdict(RESULT, budget("10GiB")) is Verdict.DOES_NOT_FIT


def test_json_has_what_was_agreed() -> None:
    failure = Failure("none", "build", "no", Location("net.py", 3), Missing("width", "add it"))
    answer = json.loads(as_json(probed(failures=(failure,))))
    assert list(answer) == ["target", "environment", "seconds", "variants", "failures"]
    (variant,) = answer["variants"]
    assert variant["recompute_flops_ratio"] == [1.2, 1.3]
    assert variant["process_bytes"][0] < variant["process_bytes"][1]
    assert set(variant) >= {
        "name", "kind", "allocated_bytes", "reserved_bytes", "process_bytes", "peak_phase", "saved_activation_bytes",
        "by_category", "by_line", "recompute_flops_ratio", "step_seconds", "checkpointed", "not_checkpointed", "active",
        "inactive_because", "assumptions", "verified",
    }  # fmt: skip
    assert set(answer["failures"][0]) == {"variant", "stage", "message", "location", "missing"}


def test_the_context_of_a_known_card_makes_the_process_a_number() -> None:
    (variant,) = json.loads(as_json(probed(card=card("T4"))))["variants"]
    assert variant["process_bytes"] == 11 * GIB + int(140.875 * 2**20)


def test_the_table_shows_what_is_held_in_letters_and_what_was_recomputed() -> None:
    text = "".join(piece.text for piece in as_text(probed(on=budget("16GiB"))))
    assert "pppppppppppppppppppppppp" + "a" * 16 in text
    assert "recomputed   4 x Block (layers.*); 1.20 to 1.30 times the operations" in text
    assert "all: fits (16GiB, 16.0 GiB usable)" in text


def test_columns_keep_apart_however_large_the_figures_are() -> None:
    large = replace(RESULT, name="none", allocated_bytes=1315 * GIB, reserved_bytes=1392 * GIB)
    rows = "".join(piece.text for piece in as_text(probed(variants=(RESULT, large)))).splitlines()
    at = next(index for index, row in enumerate(rows) if row.startswith("variant"))
    assert rows[at].split()[-5:] == ["allocated", "reserved", "process", "peak", "in"]
    assert rows[at + 2].endswith("  1315.0 GiB  1392.0 GiB  1392.1 to 1392.7 GiB  backward")
    assert len({rows[at].index("  peak in"), *(row.index("  backward") for row in rows[at + 1 : at + 3])}) == 1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--checkpointing", "some"], "expected as-written, none, all"),
        (["--budget", "much"], "expected a size"),
        (["--gpu", "Voodoo 2"], "no card"),
        (["--optimizer", "magic"], "is no optimizer"),
        (["--optimizer", "adamw,magic"], "'magic' is no optimizer"),
        (["--batch", "1,two"], "'two' is not a valid integer"),
        (["--sharding", "fsdp2"], "--world-size N"),
        (["--lora-targets", "q_proj"], "--lora-rank R"),
        (["--optimizer", "lion"], "adamw-8bit, adafactor, none"),
        (["--snapshot", "no/such/folder/out.pickle"], "no/such/folder"),
        (["--timeline", "no/such/folder/out.html"], "no/such/folder"),
        (["--batch", "0"], "--batch"),
        (["--python", "/no/such/python"], "does not exist"),
    ],
)
def test_an_option_that_means_nothing_ends_with_2_and_says_so(options: list[str], says: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "remat", "probe", "net.py", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=_path())
    assert done.returncode == 2
    assert says in done.stderr


@pytest.mark.parametrize(
    ("options", "gpu"),
    [
        ([], None),
        (["--budget", "24GiB"], None),
        (["--budget", "H100-80GB"], "H100"),
        (["--budget", "24GiB", "--gpu", "T4"], "T4"),
        (["--budget", "H100-80GB", "--gpu", "T4"], "T4"),
    ],
)
def test_the_card_of_the_budget_is_the_one_that_runs_the_kernels(options: list[str], gpu: str | None) -> None:
    assert wanted(*options).request.gpu == gpu


def wanted(*options: str) -> Asked:
    found: list[Asked] = []
    command = click.command()(probe_options(lambda **given: found.append(asked(given))))
    command.main(["net.py", *options], standalone_mode=False)
    return found[0]


def test_every_value_of_a_setting_is_a_variant_and_its_name_says_which() -> None:
    table = wanted(
        "--checkpointing", "none,all", "--optimizer", "adamw, adamw-fused", "--batch", "1,8", "--seq", "2048"
    )
    names = [variant.name for variant in table.request.variants]
    assert names[:3] == ["none, adamw, batch 1", "none, adamw, batch 8", "none, adamw-fused, batch 1"]
    assert len(set(names)) == 8
    last = table.request.variants[-1]
    assert (last.checkpointing, last.optimizer, last.batch, last.seq) == ("all", "adamw-fused", 8, 2048)
    assert table.optional == frozenset()


def test_only_what_was_added_may_not_apply_whatever_else_was_asked_for() -> None:
    assert wanted("--batch", "1,8").optional == {"all, batch 1", "all, batch 8"}
    assert [variant.name for variant in wanted("--batch", "8").request.variants] == ["as-written", "all"]


def _path() -> dict[str, str]:
    return {"PYTHONPATH": str(Path(__file__).parent.parent / "server"), "PATH": ""}


def test_the_head_of_the_table_says_that_figures_are_one_rank_s() -> None:
    head = "".join(piece.text for piece in as_text(probed(variants=(replace(RESULT, world_size=128),)))).splitlines()[0]
    assert "estimated for cuda, each of 128 ranks" in head


def test_the_head_of_the_table_says_the_sizes_that_were_used() -> None:
    sized = replace(RESULT, batch=8, seq=512)
    assert "batch 8 sequence 512, torch 2.13.0" in "".join(piece.text for piece in as_text(probed(variants=(sized,))))
    image = replace(RESULT, batch=8)
    assert "for cuda, batch 8, torch" in "".join(piece.text for piece in as_text(probed(variants=(image,))))
    assert "sequence" not in "".join(piece.text for piece in as_text(probed(variants=(sized, image))))


@pytest.mark.parametrize("known", CARDS, ids=lambda known: known.name)
def test_a_card_s_memory_has_a_source_or_is_a_range(known: Card) -> None:
    assert known.source or known.most > known.usable


def test_between_the_least_and_the_most_that_a_card_has_it_is_too_close_to_call() -> None:
    unpublished = next(known for known in CARDS if not known.source)
    between = replace(RESULT, allocated_bytes=unpublished.usable, reserved_bytes=unpublished.usable)
    assert verdict(between, unpublished) is Verdict.TOO_CLOSE
    more = replace(RESULT, allocated_bytes=unpublished.largest, reserved_bytes=unpublished.largest)
    assert verdict(more, unpublished) is Verdict.DOES_NOT_FIT


def test_ranks_that_were_measured_are_compared_with_each_other_and_with_the_estimate() -> None:
    ranks = tuple(RankFigures(rank, (10 + rank) * GIB, 12 * GIB, None, 0.5 + rank) for rank in (0, 1))
    came = replace(RESULT, kind="measured", allocated_bytes=11 * GIB, step_seconds=1.5, ranks=ranks, world_size=2)
    text = "".join(piece.text for piece in as_text(probed(variants=(RESULT, came))))
    assert "2 ranks      allocated 10.0 GiB (rank 0) to 11.0 GiB (rank 1), reserved 12.0 GiB to 12.0 GiB" in text
    assert "differs from the measurement by allocated -9.09%, reserved +0.00%" in text
    assert "more than the 2% of the self-check: trust the measurement" in text
    close = replace(came, allocated_bytes=10 * GIB, ranks=())
    text = "".join(piece.text for piece in as_text(probed(variants=(RESULT, close))))
    assert "self-check" not in text
    assert "(rank 0)" not in text


def test_several_ranks_need_what_nccl_takes_too() -> None:
    alone, many = (process_bytes(replace(RESULT, world_size=ranks), budget("80GiB")) for ranks in (None, 8))
    assert many.low - alone.low == NCCL.low
    assert many.high - alone.high == NCCL.high
    assert process_bytes(replace(RESULT, world_size=1), budget("80GiB")) == alone


def test_every_card_says_where_its_figure_is_from_or_gives_a_range() -> None:
    for found in CARDS:
        assert found.source or found.most > found.usable, found.name
        assert found.usable <= found.largest <= 1.07 * found.usable, found.name


def test_what_fails_alike_for_several_variants_is_said_once() -> None:
    missing = Missing("torch finds no GPU", "see nvidia-smi")
    alike = [Failure(name, "measure", "torch finds no GPU", None, missing, f"trace of {name}") for name in ("a", "b")]
    other = Failure("c", "forward", "shapes differ")
    text = "".join(piece.text for piece in as_text(probed(variants=(), failures=(*alike, other))))
    assert text.count("torch finds no GPU") == text.count("see nvidia-smi") == 1
    assert "failed (measure of a, b): torch finds no GPU" in text
    assert "failed (forward of c): shapes differ" in text


@pytest.mark.parametrize(
    ("estimated", "measured", "is_said"),
    [(2**20, 2**19, False), (201 * 2**20, 200 * 2**20, False), (12 * 2**20, 8 * 2**20, True), (8 * GIB, 9 * GIB, True)],
)
def test_only_a_difference_beyond_noise_is_held_against_estimates(
    estimated: int, measured: int, *, is_said: bool
) -> None:
    was = replace(RESULT, allocated_bytes=estimated, reserved_bytes=None)
    came = replace(was, kind="measured", allocated_bytes=measured)
    text = "".join(piece.text for piece in as_text(probed(variants=(was, came))))
    assert ("trust the measurement" in text) is is_said


def test_on_the_cpu_a_budget_is_judged_without_a_gpu_s_context() -> None:
    small = replace(RESULT, allocated_bytes=99 * 2**20, reserved_bytes=None)
    on = budget("100MiB")
    assert verdict(small, on) is Verdict.TOO_CLOSE
    assert verdict(replace(small, allocated_bytes=90 * 2**20), on) is Verdict.FITS
    assert verdict(replace(small, allocated_bytes=101 * 2**20), on) is Verdict.DOES_NOT_FIT
    text = "".join(piece.text for piece in as_text(probed(device="cpu", variants=(small,), on=on)))
    assert "all: too close to call (100MiB, 100.0 MiB usable)" in text


def test_the_card_that_was_named_is_the_one_that_is_judged() -> None:
    text = "".join(piece.text for piece in as_text(probed(card=card("T4"))))
    assert "all: fits (T4, 14.6 GiB usable)" in text
    tiny = replace(RESULT, allocated_bytes=GIB, reserved_bytes=GIB)
    text = "".join(piece.text for piece in as_text(probed(variants=(tiny,))))
    assert "fits every card known, the smallest of which is RTX 3080" in text


def test_lora_targets_are_those_of_every_variant() -> None:
    asked_for = wanted("--lora-rank", "8", "--lora-targets", "q_proj, v_proj").request
    assert {one.lora_targets for one in asked_for.variants} == {("q_proj", "v_proj")}
