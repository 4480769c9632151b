"""Ranks that only waited: who they waited for, where the sequence numbers or the absence of one rank show it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from remat.diagnose.collectives import absent_from_nccl, late, other_collective, undetermined, uneven
from remat.diagnose.recorded import by_recorder
from remat.diagnose.verdict import Verdict, verdict

if TYPE_CHECKING:
    from remat.diagnose.evidence import Case


def by_waiting(case: Case) -> Verdict | None:
    """Step 6 of the order of evidence: no rank failed by itself."""
    for step in (
        _stuck,
        _barrier,
        _busy,
        by_recorder,
        uneven,
        other_collective,
        late,
        absent_from_nccl,
        undetermined,
        _lost,
        _stalled,
        _left,
    ):
        if (made := step(case)) is not None:
            return made
    return None


def _stuck(case: Case) -> Verdict | None:
    stuck = case.first("stuck")
    if stuck is None or case.notices.get("timeout"):
        return None
    facts = {"rank": str(stuck.rank), "seconds": stuck.facts["seconds"]}
    return verdict("nccl.watchdog_stuck", facts, (stuck.line,), "the watchdog's own report", left_alone=False)


def _barrier(case: Case) -> Verdict | None:
    """A monitoredBarrier names who did not come."""
    for one in case.waiting:
        named = one.facts.get("absent", "")
        ranks = [int(part) for part in named.replace(",", " ").split() if part.isdigit()]
        if len(ranks) == 1:
            facts = {"rank": str(ranks[0]), "said": one.said}
            return verdict(
                "dist.peer_stalled", facts, one.lines, "monitoredBarrier names the rank that did not come", ranks[0]
            )
    return None


def _busy(case: Case) -> Verdict | None:
    waiting = [one for one in case.waiting if one.signature.id == "dist.rank0_busy"]
    bar = case.notices.get("tokenising", ())
    if not waiting:
        return None
    said = waiting[0]
    facts = {}
    if bar:
        facts["work"] = f"{bar[-1].facts['what'].strip()}, at {bar[-1].facts['percent']} %"
    elif "main_process_first" not in said.facts.get("frames", ""):
        return _store(case, (*said.lines,))
    lines = (*(n.line for n in bar[-1:]), *said.lines)
    made = verdict("dist.rank0_busy", facts, lines, "rank 0 was still in the section that it enters first", 0)
    return replace(made, place=said.place, said=said.said)


def _lost(case: Case) -> Verdict | None:
    """A peer or the store that this log does not hold."""
    for one in case.waiting:
        if one.signature.id == "nccl.remote_peer_closed" and not _single_silent(case):
            return Verdict(
                one.signature, one.facts, one.lines, "the error names the peer that went away", said=one.said
            )
        if one.signature.id == "dist.store_lost" and not _single_silent(case):
            return _store(case, one.lines)
    return None


def _store(case: Case, lines: tuple[int, ...]) -> Verdict:
    remote = case.first("store_socket")
    facts = {"where": f" on {remote.facts['node']}" if remote is not None else ""}
    shown = (*lines, *((remote.line,) if remote is not None else ()))
    return verdict("dist.store_lost", facts, shown, "only ranks that lost the store are shown")


def _single_silent(case: Case) -> int | None:
    """The one rank of the known world that does not wait, where at least one other rank does."""
    silent = sorted(set(case.world) - set(case.waits))
    if case.unfinished - set(case.waits):
        return None  # its text goes on where this one ends
    if len(silent) == 1 and case.waits and sorted(case.world) == list(range(len(case.world))):
        return silent[0]
    return None


def _stalled(case: Case) -> Verdict | None:
    rank = _single_silent(case)
    if rank is None or (case.exits and not case.complete):
        return None
    said = case.waiting[0].said if case.waiting else "a timeout"
    lines = tuple(line for found in list(case.waits.values())[:3] for line in found[-1:])
    stalled = any(one.signature.id == "dist.peer_stalled" for one in case.waiting)
    ended = case.exits.get(rank)
    if stalled and (ended is None or ended.code in {-15, -9, -6}):
        return verdict(
            "dist.peer_stalled",
            {"rank": str(rank), "said": said},
            lines,
            "every other rank reports waiting; this one does not",
            rank,
        )
    if case.exits and ended is None and len(case.waits) >= 2:
        facts = {"rank": str(rank), "difference": "it ended early with status 0, and its peers lost it in a collective"}
        return verdict(
            "dist.rank_divergent_control_flow",
            facts,
            lines,
            "the rank that is absent from the list of failures ended early",
            rank,
        )
    return None


def _left(case: Case) -> Verdict | None:
    """One rank lost its peers, and they ended with status 0: the ranks diverged, and the complaint is evidence."""
    if not case.complete or case.terminated or len(case.exits) != 1 or set(case.exits) != set(case.waits):
        return None
    ((rank, ended),) = case.exits.items()
    facts = {
        "difference": f"rank {rank} was still in a collective when its peers had left with status 0",
        "missing": f"which rank departed: rank {rank} called one collective more, or its peers left early",
    }
    lines = (*case.waits[rank][-1:], ended.line)
    made = verdict("dist.rank_divergence_undetermined", facts, lines, "the peers are not in the list of failures")
    return replace(made, left_alone=False)
