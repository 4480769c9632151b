"""What is said where nothing failed, and what keeps a line that sounds like a failure from being one."""

from __future__ import annotations

import pytest

from remat.diagnose.diagnose import diagnose

STEPS = "\n".join(f"step {step} loss 2.{step}" for step in range(50))
FINISHED = "Training finished: 50 batches"


def test_a_best_loss_that_begins_at_infinity_is_no_failure() -> None:
    starts = "\n".join(f"[rank{rank}]: starting, best val loss: inf" for rank in range(4))
    assert diagnose(f"{starts}\n{STEPS}").failed is False
    assert diagnose(f"{starts}\n{STEPS}\n{FINISHED}").also[0].summary == "This log shows no failure."


def test_a_validation_loss_that_is_nan_in_a_run_that_finished_is_only_mentioned() -> None:
    text = "\n".join([*(f"epoch {n}: val loss: nan (no validation data)" for n in (1, 2, 3)), FINISHED])
    report = diagnose(text)
    assert report.failed is False
    assert [(one.id, one.lines) for one in report.also[1:]] == [("prec.nan_loss", (1, 2, 3))]


def test_a_loss_that_was_nan_for_a_while_in_a_run_that_finished_is_only_mentioned() -> None:
    report = diagnose(f"step 0 loss nan\nstep 1 loss nan\n{STEPS}\n{FINISHED}")
    assert report.failed is False
    assert [one.id for one in report.also] == ["not_a_failure", "prec.nan_loss"]


@pytest.mark.parametrize("end", [FINISHED, "saving"])
def test_a_training_loss_that_stays_nan_to_the_end_is_a_failure(end: str) -> None:
    report = diagnose(f"{STEPS}\nstep 50 loss nan\nstep 51 loss nan\n{end}")
    assert report.cause is not None
    assert report.cause.id == "prec.nan_loss"


@pytest.mark.parametrize(
    "end",
    [
        FINISHED,
        "Training complete",
        "{'train_runtime': 3.1, 'train_loss': 2.0}",
        "`Trainer.fit` stopped: `max_epochs=3` reached.",
        "============ 2 passed, 1 skipped in 3.21s ============",
        "Process finished with exit code 0",
    ],
)
def test_that_a_run_finished_is_said_only_where_a_line_shows_it(end: str) -> None:
    assert diagnose(f"{STEPS}\n{end}").also[0].summary == "This log shows no failure."
    said = diagnose(STEPS).also[0].summary
    assert said == "This log shows no failure; it does not show that the run finished."
