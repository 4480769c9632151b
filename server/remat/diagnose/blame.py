"""
The only judgement: what began it, on which rank, and who merely followed.

The steps stand in the order of evidence; the first that decides ends the search, and what it decided is a claim with
its lines. What the log cannot decide is named as missing, with the command that obtains it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from remat.diagnose.ended import by_command_line, by_exit, unexplained
from remat.diagnose.evidence import SIGNALS, gather
from remat.diagnose.no_failure import no_failure, unharmed
from remat.diagnose.own import by_fingerprint, by_own_error
from remat.diagnose.report import Claim, Collateral, Cure, Missing, Report
from remat.diagnose.signatures import KINDS
from remat.diagnose.stops import by_the_machine, from_outside
from remat.diagnose.verdict import Verdict, verdict
from remat.diagnose.waits import by_waiting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remat.diagnose.evidence import Case
    from remat.diagnose.reading import Run

_NOT_FINITE = re.compile(r"finite|nan|inf", re.IGNORECASE)
_PROCESSES = re.compile(r"\bnprocs=(\d{1,6})\b")
_STOPPED = {"proc.sigterm_preempt", "proc.sighup"}  # by a signal to the launcher, before any rank failed


class _Facts(dict[str, str]):
    """A fact that the log does not give reads as unknown in a sentence."""

    def __missing__(self, key: str) -> str:
        return "(not shown)"


def fill(template: str, facts: dict[str, str]) -> str:
    return template.format_map(_Facts(facts))


def judge(run: Run) -> Report:
    """Decide on one run."""
    case = gather(run)
    steps = (
        from_outside,
        by_the_machine,
        by_fingerprint,
        _not_finite,
        by_own_error,
        by_command_line,
        by_exit,
        by_waiting,
        unexplained,
    )
    for step in steps:
        if (made := step(case)) is not None:
            return _report(case, made, _spawned(case, run))
    return no_failure(case, run)


def _not_finite(case: Case) -> Verdict | None:
    """A loss that stopped being finite before anything complained of it."""
    seen = case.notices.get("not_finite", ())
    complaint = next((one for one in case.own if one.signature.id == "prec.nan_loss"), None)
    if complaint is not None and complaint.facts.get("rank", "").isdigit():
        rank = int(complaint.facts["rank"])
        facts = {"at": f" on rank {rank} at iteration {complaint.facts.get('step', '?')}", "between": ""}
        made = verdict("prec.nan_loss", facts, complaint.lines, "the text names the rank", rank)
        return Verdict(made.kind, made.facts, made.lines, made.step, rank, complaint.place, complaint.said)
    others = [one for one in case.own if one.weight > 0 and one is not complaint]
    checks = [one for one in case.own if one.weight == 0]
    if others or (checks and not _NOT_FINITE.search(checks[0].said)):
        return None
    if len(seen) < 2 and complaint is None and not (seen and checks):
        return None
    if unharmed(case):
        return None
    told = seen[0].facts if seen else complaint.facts if complaint is not None else {}
    step = f"{told.get('unit', 'iteration')} {told['step']}" if told.get("step") else ""
    printed = " (the Trainer prints 0.0 in its place; grad_norm is nan)" if "printed" in told else ""
    facts = {
        "at": f"{f' first at {step}' if step else ''}{printed}",
        "between": f" at or just before {step}" if step else "",
    }
    shown = complaint or (checks[0] if checks else None)
    lines = (*(n.line for n in seen[:2]), *(shown.lines if shown else ()))
    made = verdict("prec.nan_loss", facts, lines, "the first line with a non-finite loss")
    return Verdict(
        made.kind, made.facts, made.lines, made.step, None, shown.place if shown else None, shown.said if shown else ""
    )


def _report(case: Case, made: Verdict, spawned: int) -> Report:
    kind, facts = made.kind, made.facts
    summary = fill(kind.cause, facts)
    if made.rank is not None and f"rank {made.rank}" not in summary.lower():
        summary = f"Rank {made.rank}: {summary}"
    if made.said and (made.said.partition(": ")[2] or made.said)[:60] not in summary:
        summary += f" The log says: {made.said}"
    also = [Claim(one.signature.id, f"Also, later{_of(one.rank)}: {one.said}", one.lines) for one in made.also]
    if case.later:
        first = case.later[0]
        also.append(
            Claim(first.signature.id, f"A later attempt failed too, as a consequence: {first.said}", first.lines)
        )
    stopped = tuple(notice.line for notice in case.notices.get("terminating", ()))
    if stopped and len(stopped) != spawned - 1:
        said = f"mp.spawn stopped {len(stopped)} other process(es) (SIGTERM); which ranks these were is not shown."
        also.append(Claim(kind.id, said, stopped[:4]))
    return Report(
        failed=not kind.finished,
        cause=Claim(kind.id, summary, tuple(sorted(dict.fromkeys(made.lines)))),
        initiating_rank=made.rank,
        collateral=_collateral(case, made, spawned),
        fix=Cure(fill(kind.fix, facts), kind.rules),
        verify=fill(kind.verify, facts),
        missing=_missing(made),
        also=tuple(also),
        location=made.place,
        decided=(Claim(kind.id, made.step, tuple(sorted(dict.fromkeys(made.lines)))),),
    )


def _of(rank: int | None) -> str:
    return "" if rank is None else f" on rank {rank}"


def _missing(made: Verdict) -> tuple[Missing, ...]:
    facts = made.facts
    found = (
        []
        if "settled" in facts
        else [Missing(fill(a.fact, facts), fill(a.why, facts), fill(a.how, facts)) for a in made.kind.asks]
    )
    if facts.get("missing"):
        found.append(
            Missing(
                facts["missing"],
                "the text shows that they differ, not which one is meant",
                "TORCH_DISTRIBUTED_DEBUG=DETAIL on the same command; py-spy dump --pid PID on both ranks",
            )
        )
    if facts.get("unread"):
        found.append(
            Missing(
                f"what rank {facts['unread']} raised: the text begins or ends inside it",
                "it may have failed first, or in the same way",
                "select the log from its first line to its last",
            )
        )
    if made.truncated and made.kind.weight == 0:
        found.append(
            Missing(
                "the frames above: which file and line, and whether a DataLoader worker raised it",
                "the traceback is cut off at its head",
                "select from the line `Traceback (most recent call last)` on",
            )
        )
    return tuple(found)


def _collateral(case: Case, made: Verdict, processes: int) -> tuple[Collateral, ...]:
    """Every rank that is known to have followed, with the lines that show it."""
    if not made.left_alone:
        return ()
    waited = "waited for a peer until it was lost or the timeout came"
    told = f"raised again what the distributed checkpoint told it of rank {made.rank}"
    shown = {rank: (told if rank in case.told else waited, lines[:3]) for rank, lines in case.waits.items()}
    if made.rank is not None or made.kind.id in {"ambiguous.concurrent_failures", *_STOPPED}:
        for rank, said, lines in _followed(case, processes):
            shown.setdefault(rank, (said, lines))
    if made.kind.id in _STOPPED and not shown and "death" in case.notices:
        shown = {rank: ("ran until the stop", (last,)) for rank, last in case.seen.items()}
    return tuple(
        Collateral(rank, f"Rank {rank} {said}.", tuple(sorted(dict.fromkeys(lines))))
        for rank, (said, lines) in sorted(shown.items())
        if rank != made.rank and rank not in made.involved
    )


def _followed(case: Case, processes: int) -> Iterator[tuple[int, str, tuple[int, ...]]]:
    """How the other ranks ended, once it is known who was first."""
    for ended in case.exits.values():
        yield (
            ended.rank,
            f"ended with exit code {ended.code}{_signal(ended.code)} after the first failure",
            (ended.line,),
        )
    signals = {notice.line: notice.facts["signal"] for notice in case.notices.get("closing", ())}
    for rank, line in case.terminated.items():
        yield rank, f"was stopped by the launcher ({signals.get(line, 'SIGTERM')})", (line,)
    for one in case.own:
        if one.rank is not None:
            yield one.rank, "failed after it", one.lines[-1:]
    spawned = [notice.line for notice in case.notices.get("terminating", ())]
    for rank in range(processes if spawned and len(spawned) == processes - 1 else 0):
        yield rank, "was stopped by mp.spawn (SIGTERM)", (spawned[0],)


def _spawned(case: Case, run: Run) -> int:
    """How many processes mp.spawn started, as its call says, or the ranks that are seen; 0: unknown."""
    sources = (frame.source for one in run.failures for raised in one.chain for frame in raised.frames)
    told = next((match for source in sources if (match := _PROCESSES.search(source))), None)
    return int(told[1]) if told is not None else max(case.seen, default=-1) + 1


def _signal(code: int) -> str:
    return f" ({SIGNALS[-code]})" if -code in SIGNALS else ""


__all__ = ["KINDS", "fill", "judge"]
