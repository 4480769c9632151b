"""What is said of a run in which nothing failed, and whether its end is to be seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from remat.diagnose.report import Claim, Report

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remat.diagnose.evidence import Case
    from remat.diagnose.reading import Run

_LONG_AFTER = 40  # lines after a loss that was not finite: it did not stay so
_ENDS = ("ended_well", "group_ended")
_WARNINGS = {
    "use_reentrant": (
        "ckpt.use_reentrant_warning",
        "Only a warning: checkpoint was called without use_reentrant; pass use_reentrant=False.",
    ),
    "scheduler_first": ("not_a_failure", "Only a warning: lr_scheduler.step() was called before optimizer.step()."),
    "cache_off": (
        "not_a_failure",
        "Only a warning: use_cache=True does not go with gradient checkpointing and was turned off.",
    ),
    "no_grad_inputs": (
        "ckpt.no_input_requires_grad",
        "A warning: a checkpointed block has no input that requires grad; its parameters get no gradients.",
    ),
}


def finished_at(case: Case) -> int | None:
    """The last line that says the run came to its end by itself; None: no line does."""
    return max((notice.line for name in _ENDS for notice in case.notices.get(name, ())), default=None)


def finished_well(case: Case) -> bool:
    """A line shows the run's end, and no process, rank or launcher tells of an error."""
    return finished_at(case) is not None and not (case.exits or case.launcher or case.waits or case.own)


def unharmed(case: Case) -> bool:
    """Whether a loss that was not finite did not matter: the run finished, and it was a validation's or passed."""
    if not finished_well(case):
        return False
    trained = [notice.line for notice in case.notices.get("not_finite", ()) if "of" not in notice.facts]
    return not trained or max(trained) < case.last - _LONG_AFTER


def no_failure(case: Case, run: Run) -> Report:
    """Nothing failed: say so, and what was noticed on the way."""
    end = finished_at(case)
    said = "This log shows no failure" + ("." if end is not None else "; it does not show that the run finished.")
    also = [Claim("not_a_failure", said, (end or case.last,))]
    also += [
        Claim(identity, warning, (case.notices[name][0].line,))
        for name, (identity, warning) in _WARNINGS.items()
        if name in case.notices
    ]
    also += [*_not_finite(case), *_recovered(run)]
    return Report(failed=False, also=tuple(also))


def _not_finite(case: Case) -> Iterator[Claim]:
    if seen := case.notices.get("not_finite", ()):
        lines = tuple(sorted({notice.line for notice in seen[:4]}))
        yield Claim("prec.nan_loss", f"A loss that is not finite ({seen[0].facts['value']}) was printed.", lines)


def _recovered(run: Run) -> Iterator[Claim]:
    count = run.recovered_count + len(run.failures)
    if count:
        shown = [*run.recovered, *run.failures][-1]
        yield Claim(
            "not_a_failure",
            f"Recovered: {count} error(s) after which the run went on, the last: {shown.chain[-1].text[:200]}",
            (shown.at,),
        )
