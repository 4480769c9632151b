"""What the flight recorders of the ranks show together: who was late, who was in another collective."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from remat.diagnose.verdict import Verdict, verdict

if TYPE_CHECKING:
    from remat.diagnose.evidence import Case
    from remat.diagnose.signature import Noticed

_SAME_SIZE = ("all_reduce", "allreduce", "broadcast", "reduce_scatter_base", "all_gather_base", "barrier")


def by_recorder(case: Case) -> Verdict | None:
    """Groups in which a rank is behind or elsewhere, in the order of the text."""
    groups: dict[str, dict[int, Noticed]] = {}
    for told in case.notices.get("recorded", ()):
        if told.rank is not None:
            groups.setdefault(told.facts["group"], {})[told.rank] = told
    for group, ranks in groups.items():
        if len(ranks) > 1 and (made := _elsewhere(case, group) or _behind(case, group, ranks)) is not None:
            return made
    return None


def _calls(case: Case, group: str) -> dict[int, dict[int, Noticed]]:
    """The calls of a group: sequence number -> rank -> call."""
    calls: dict[int, dict[int, Noticed]] = {}
    for told in case.notices.get("recorded_call", ()):
        if told.facts["group"] == group and told.rank is not None:
            calls.setdefault(int(told.facts["seq"]), {})[told.rank] = told
    return calls


def _elsewhere(case: Case, group: str) -> Verdict | None:
    """The first number at which two ranks called different operations, or the same one on other sizes."""
    for seq, ranks in sorted(_calls(case, group).items()):
        kinds: dict[str, list[int]] = {}
        for rank, call in ranks.items():
            if call.facts["sizes"].startswith("?") and call.facts["op"].endswith(_SAME_SIZE):
                continue  # a size that the dump does not tell is no difference
            size = f" of {call.facts['sizes']}" if call.facts["op"].endswith(_SAME_SIZE) else ""
            kinds.setdefault(call.facts["op"] + size, []).append(rank)
        if len(kinds) > 1:
            return _different(seq, kinds, ranks)
    return None


def _different(seq: int, kinds: dict[str, list[int]], ranks: dict[int, Noticed]) -> Verdict:
    shown = "; ".join(f"rank{'s' * (len(r) > 1)} {', '.join(map(str, r[:8]))}: {call}" for call, r in kinds.items())
    alone = [found[0] for found in kinds.values() if len(found) == 1]
    odd = alone[0] if len(kinds) == 2 and len(alone) == 1 and len(ranks) > 2 else None
    lines = tuple(call.line for call in list(ranks.values())[:4])
    facts = {"seq": str(seq), "difference": shown, "rank": str(odd)}
    if odd is not None:
        step = "one rank's recorded call differs from all others' at one sequence number"
        return verdict("nccl.mismatched_collective", facts, lines, step, odd)
    facts |= {"rank": "of unknown number", "missing": f"which of the ranks departed from the program ({shown})"}
    operations = {call.facts["op"] for call in ranks.values()}
    identity = "dist.rank_divergence_undetermined" if len(operations) > 1 else "nccl.mismatched_collective"
    return verdict(
        identity, facts, lines, "recorded calls differ at one sequence number, no majority", left_alone=False
    )


def _behind(case: Case, group: str, ranks: dict[int, Noticed]) -> Verdict | None:
    """The one rank that had enqueued less than every other."""
    counts = {rank: int(told.facts["enqueued"]) for rank, told in ranks.items()}
    late = [rank for rank, count in counts.items() if count < max(counts.values())]
    others = {rank for rank in counts if rank not in late}
    if len(late) != 1 or not any(int(ranks[rank].facts["completed"]) < counts[rank] for rank in others):
        return None
    (rank,) = late
    seq, calls = counts[rank] + 1, _calls(case, group)
    waiting = next(iter(calls.get(seq, {}).values()), None)
    last = calls.get(counts[rank], {}).get(rank)
    after = f"; the last it enqueued is {last.facts['op']}{last.facts.get('place', '')}" if last is not None else ""
    facts = {
        "rank": str(rank),
        "seq": str(seq),
        "op": waiting.facts["op"] if waiting is not None else "unknown operation",
        "evidence": f"its flight recorder ends at {counts[rank]} in group {group}, that of others at "
        f"{max(counts.values())}{after}",
        "world": "",
    }
    lines = (ranks[rank].line, *(told.line for told in (last, waiting) if told is not None))
    made = verdict("nccl.timeout_rank_absent", facts, lines, "the flight recorders' last enqueued collectives", rank)
    return replace(made, involved=frozenset(late))
