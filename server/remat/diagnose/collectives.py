"""Collectives that timed out: which rank was late, absent or in another one, by what the watchdogs print."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from remat.diagnose.verdict import Verdict, verdict

if TYPE_CHECKING:
    from remat.diagnose.evidence import Case
    from remat.diagnose.signature import Facts, Noticed


def _timeouts(case: Case) -> dict[int, Noticed]:
    return {n.rank: n for n in reversed(case.notices.get("timeout", ())) if n.rank is not None}


def _sequence(case: Case) -> int | None:
    counted = Counter(int(n.facts["seq"]) for n in _timeouts(case).values())
    return counted.most_common(1)[0][0] if counted else None


def uneven(case: Case) -> Verdict | None:
    timeouts, waiting = _timeouts(case), set(case.waits)
    ended = {
        n.rank: n
        for name in ("finished", "batches")
        for n in case.notices.get(name, ())
        if n.rank is not None and "batches" in n.facts
    }
    alone = [rank for rank in ended if rank not in timeouts and rank not in waiting]
    if len(alone) != 1 or not (timeouts or waiting):
        return None
    (rank,) = alone
    facts = {"rank": str(rank), "batches": ended[rank].facts["batches"]}
    dump = next((n for n in case.notices.get("dump", ()) if n.rank == rank), None)
    lines = (ended[rank].line, *((dump.line,) if dump else ()))
    return verdict(
        "dist.uneven_inputs", facts, lines, "this rank said that its data ended, while the others waited", rank
    )


def other_collective(case: Case) -> Verdict | None:
    """The same sequence number with another operation or size."""
    seq = _sequence(case)
    calls = {
        rank: (n.facts["op"], n.facts.get("numel_in", ""))
        for rank, n in _timeouts(case).items()
        if int(n.facts["seq"]) == seq
    }
    groups: dict[tuple[str, str], list[int]] = {}
    for rank, call in calls.items():
        groups.setdefault(call, []).append(rank)
    if len(groups) < 2:
        return None
    alone = [ranks[0] for ranks in groups.values() if len(ranks) == 1]
    odd = alone[0] if len(groups) == 2 and len(alone) == 1 and len(calls) >= 3 else None
    shown = "; ".join(
        f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, sorted(ranks)[:8]))}: {op}"
        f"{f' of {size} elements' if size else ''}"
        for (op, size), ranks in groups.items()
    )
    lines = tuple(n.line for n in list(_timeouts(case).values())[:4])
    facts = {"rank": str(odd), "seq": str(seq), "difference": shown}
    if odd is None:
        operations = {op for op, _ in groups}
        identity = "dist.rank_divergence_undetermined" if len(operations) > 1 else "nccl.mismatched_collective"
        facts["missing"] = f"which of the ranks departed from the program ({shown}): the stacks of both"
        facts["rank"] = "of unknown number"
        return verdict(identity, facts, lines, "different calls at one sequence number, no majority", left_alone=False)
    return verdict(
        "nccl.mismatched_collective",
        facts,
        lines,
        "one rank's call differs from all others' at one sequence number",
        odd,
    )


def late(case: Case) -> Verdict | None:
    """The rank whose last enqueued collective comes before the one that timed out."""
    seq = _sequence(case)
    if seq is None:
        return None
    last = {n.rank: n for name in ("dump", "status") for n in case.notices.get(name, ()) if n.rank is not None}
    group = _group(case)
    late = [
        n for n in last.values() if int(n.facts["enqueued"]) < seq and (not group or n.facts.get("group", "") == group)
    ]
    if len(late) != 1 or late[0].rank is None:
        return None
    return _absent(case, late[0].rank, seq, f"its last enqueued work is {late[0].facts['enqueued']}", (late[0].line,))


def _group(case: Case) -> str:
    counted = Counter(n.facts.get("group", "") for n in case.notices.get("status", ()))
    return counted.most_common(1)[0][0] if counted else ""


def _absent(case: Case, rank: int, seq: int, evidence: str, lines: tuple[int, ...], world: str = "") -> Verdict:
    timeouts = _timeouts(case)
    op = next(iter(timeouts.values())).facts["op"]
    facts = {"rank": str(rank), "seq": str(seq), "op": op, "evidence": evidence, "world": world}
    shown = (*lines, *(n.line for n in list(timeouts.values())[:3]))
    return verdict(
        "nccl.timeout_rank_absent", facts, shown, "the one rank that had not completed enqueuing the collective", rank
    )


def absent_from_nccl(case: Case) -> Verdict | None:
    """The single rank of a known world that reports no wait."""
    seq, timeouts = _sequence(case), _timeouts(case)
    if seq is None:
        return None
    size, said = _world_size(case)
    everyone = set(range(size)) if size else set(case.world)
    if not size and everyone != set(range(len(everyone))):
        return None
    heard = {n.rank for name in ("timeout", "status", "dump") for n in case.notices.get(name, ())}
    missing = sorted(everyone - heard)
    if len(missing) != 1 or len(timeouts) < 2:
        return None
    world = f" (world size {len(everyone)} follows from {said})" if said else ""
    evidence = f"it is the one of {len(everyone)} ranks with no line about it (absent, missing from the reports){world}"
    return _absent(case, missing[0], seq, evidence, (), world)


def _world_size(case: Case) -> tuple[int, str]:
    """Gathering into one buffer makes it as many times larger as there are ranks."""
    for n in case.notices.get("timeout", ()):
        if "numel_in" not in n.facts:
            continue
        small, large = sorted((int(n.facts["numel_in"]), int(n.facts["numel_out"])))
        if n.facts["op"] in {"_ALLGATHER_BASE", "_REDUCE_SCATTER_BASE"} and small and large % small == 0:
            return large // small, f"NumelOut/NumelIn = {n.facts['numel_out']}/{n.facts['numel_in']}"
    return 0, ""


def undetermined(case: Case) -> Verdict | None:
    seq, timeouts = _sequence(case), _timeouts(case)
    if seq is None:
        return None
    ranks = sorted(timeouts)
    ahead = {n.rank for n in case.notices.get("status", ()) if int(n.facts["enqueued"]) > seq}
    lines = tuple(timeouts[rank].line for rank in ranks[:4])
    made = verdict("nccl.timeout_undetermined", _unknown(timeouts, seq), lines, "only waiting ranks are shown")
    return replace(made, left_alone=bool(ahead) and ahead >= set(ranks))


def _unknown(timeouts: dict[int, Noticed], seq: int) -> Facts:
    """What is shown of a collective that nobody can be blamed for, and what would show more."""
    ranks = sorted(timeouts)
    call = next(iter(timeouts.values())).facts
    size = f", NumelIn={call['numel_in']}" if "numel_in" in call else ""
    facts = {"seq": str(seq), "op": call["op"], "size": size, "barrier": ""}
    if call.get("numel_in") == "1":
        facts["barrier"] = " NumelIn=1 is what a barrier (or a one-element reduction) sends: not every rank reached it."
    if len(ranks) > 1:
        facts["who"] = f"All {len(ranks)} ranks that report (every rank shown: {', '.join(map(str, ranks[:16]))})"
        facts["needed"] = (
            "all of these ranks enqueued the same collective: network or GPU evidence is needed (NCCL_DEBUG=INFO, Xid, "
            "ib counters), or the ranks not shown"
        )
    else:
        facts["who"] = f"Rank {ranks[0]}"
        facts["needed"] = (
            f"the other ranks' logs: which one lacks collective {seq}; and whether a save or other step runs inside a "
            "rank-0 guard"
        )
    return facts
