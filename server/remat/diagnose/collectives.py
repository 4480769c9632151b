"""Collectives that timed out: which rank was late, absent or in another one, by what the watchdogs print."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from remat.diagnose.notices import MOST_RANKS, whole
from remat.diagnose.verdict import Verdict, verdict

if TYPE_CHECKING:
    from remat.diagnose.evidence import Case
    from remat.diagnose.signature import Facts, Noticed


def _timeouts(case: Case) -> dict[int, Noticed]:
    return {n.rank: n for n in reversed(case.notices.get("timeout", ())) if n.rank is not None}


def _named(notice: Noticed) -> str:
    """The group that a watchdog names: its GUID, which all its ranks share, where there is one."""
    text = notice.facts.get("group", "").strip()
    return text.partition("GUID ")[2] or text


def _group(case: Case, timeout: Noticed) -> str:
    """The group of a timeout: older versions name it only where they tell of the exception."""
    if name := _named(timeout):
        return name
    told = [n for n in case.notices.get("status", ()) if n.rank == timeout.rank and _number(n) == _number(timeout)]
    if told:
        return _named(told[0])
    others = {_named(n) for name in ("timeout", "status", "dump") for n in case.notices.get(name, ())} - {""}
    return next(iter(others)) if len(others) == 1 and whole(*others) else ""


def _number(notice: Noticed) -> int:
    return int(notice.facts["seq"])


def _waited_for(case: Case) -> tuple[str, int] | None:
    """The collective that most ranks timed out in: its group and its number there."""
    counted = Counter((_group(case, n), _number(n)) for n in _timeouts(case).values())
    return counted.most_common(1)[0][0] if counted else None


def _in_it(case: Case, group: str, seq: int) -> dict[int, Noticed]:
    """The ranks that timed out in this collective, also where they timed out in another one first."""
    every = case.notices.get("timeout", ())
    return {n.rank: n for n in reversed(every) if n.rank is not None and _number(n) == seq and _group(case, n) == group}


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
    """The same sequence number of a group with another operation or size."""
    waited = _waited_for(case)
    if waited is None:
        return None
    _, seq = waited
    timeouts = _in_it(case, *waited)
    calls = {rank: (n.facts["op"], n.facts.get("numel_in", "")) for rank, n in timeouts.items()}
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
    lines = tuple(n.line for n in list(timeouts.values())[:4])
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
    """The rank whose last enqueued collective comes before the one that timed out, in the same group."""
    waited = _waited_for(case)
    if waited is None:
        return None
    group, seq = waited
    timeouts = _in_it(case, *waited)
    last: dict[int, Noticed] = {}
    for n in (n for name in ("dump", "status") for n in case.notices.get(name, ())):
        if n.rank is not None and n.rank not in timeouts and _named(n) == group:
            last[n.rank] = max(n, last.get(n.rank, n), key=lambda one: int(one.facts["enqueued"]))
    late = [(rank, n) for rank, n in last.items() if int(n.facts["enqueued"]) < seq]
    if len(late) != 1:
        return None
    ((rank, shown),) = late
    return _absent(rank, timeouts, f"its last enqueued work is {shown.facts['enqueued']}", (shown.line,))


def _absent(rank: int, timeouts: dict[int, Noticed], evidence: str, lines: tuple[int, ...], world: str = "") -> Verdict:
    call = next(iter(timeouts.values())).facts
    facts = {"rank": str(rank), "seq": call["seq"], "op": call["op"], "evidence": evidence, "world": world}
    shown = (*lines, *(n.line for n in list(timeouts.values())[:3]))
    return verdict(
        "nccl.timeout_rank_absent", facts, shown, "the one rank that had not completed enqueuing the collective", rank
    )


def absent_from_nccl(case: Case) -> Verdict | None:
    """The single rank of a known world that reports no wait. Of a smaller group the log does not tell who is in it."""
    waited = _waited_for(case)
    if waited is None or not whole(waited[0]) or len({_group(case, n) for n in _timeouts(case).values()}) > 1:
        return None
    timeouts = _in_it(case, *waited)
    size, said = _world_size(timeouts)
    everyone = set(range(size)) if size else set(case.world)
    if everyone != set(range(len(everyone))) or not everyone.issuperset(case.world):
        return None
    heard = {n.rank for name in ("timeout", "status", "dump") for n in case.notices.get(name, ())}
    missing = sorted(everyone - heard)
    if len(missing) != 1 or len(timeouts) < 2:
        return None
    world = f" (world size {len(everyone)} follows from {said})" if said else ""
    evidence = f"it is the one of {len(everyone)} ranks with no line about it (absent, missing from the reports){world}"
    return _absent(missing[0], timeouts, evidence, (), world)


def _world_size(timeouts: dict[int, Noticed]) -> tuple[int, str]:
    """Gathering into one buffer makes it as many times larger as there are ranks."""
    for n in timeouts.values():
        if "numel_in" not in n.facts:
            continue
        small, large = sorted((int(n.facts["numel_in"]), int(n.facts["numel_out"])))
        if (
            n.facts["op"] in {"_ALLGATHER_BASE", "_REDUCE_SCATTER_BASE"}
            and 0 < large <= small * MOST_RANKS
            and large % small == 0
        ):
            return large // small, f"NumelOut/NumelIn = {n.facts['numel_out']}/{n.facts['numel_in']}"
    return 0, ""


def undetermined(case: Case) -> Verdict | None:
    waited = _waited_for(case)
    if waited is None:
        return None
    group, seq = waited
    timeouts, every = _in_it(case, group, seq), _timeouts(case)
    ahead = {n.rank for n in case.notices.get("status", ()) if int(n.facts["enqueued"]) > seq and _named(n) == group}
    elsewhere = {rank: n for rank, n in every.items() if rank not in timeouts}
    ranks = [*sorted(timeouts), *sorted(elsewhere)]
    lines = tuple(every[rank].line for rank in ranks[:4])
    facts = _unknown(timeouts, seq)
    if elsewhere:
        facts["who"] = f"Rank{'s' * (len(timeouts) > 1)} {', '.join(map(str, sorted(timeouts)[:16]))}{_of(group)}"
        facts["needed"] = f"which ranks belong to the group of each, and the logs of those that lack collective {seq}"
    facts["barrier"] += "".join(
        f" Rank {rank} timed out in another one: {n.facts['op']}, number {n.facts['seq']}{_of(_group(case, n))}."
        for rank, n in sorted(elsewhere.items())[:8]
    )
    made = verdict("nccl.timeout_undetermined", facts, lines, "only waiting ranks are shown")
    return replace(made, left_alone=bool(ahead) and ahead >= set(ranks))


def _of(group: str) -> str:
    return f" of group {group}" if group else ""


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
