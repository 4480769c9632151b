"""Failures that ranks had by themselves: one rank's, every rank's, or several in an unknown order."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from remat.diagnose.clocks import first_of
from remat.diagnose.no_failure import finished_well
from remat.diagnose.signature import Seen
from remat.diagnose.signatures import KINDS
from remat.diagnose.verdict import Verdict, verdict

if TYPE_CHECKING:
    from remat.diagnose.evidence import Case
    from remat.diagnose.recognise import Found

_CALLS = re.compile(
    r"Rank (?P<rank>\d{1,6}) is running collective: CollectiveFingerPrint\(SequenceNumber=(?P<seq>\d{1,18})(?:, "
    r")?OpType=(?P<op>\w+)"
    r"(?:, TensorShape=\[(?P<shape>[^\]]{0,200})\])?(?:, TensorDtypes=(?P<dtype>[\w, ]{0,80}?))?(?=[,)])"
)
Call = tuple[str, str, str]  # operation, shape, dtype
_NUMBERS = re.compile(r"0x[0-9a-f]+|\d+")


def by_fingerprint(case: Case) -> Verdict | None:
    """Ranks that told each other which collective they were in. Majorities count self-reports only."""
    reports = [
        one for one in case.own if one.signature.id == "dist.mismatched_collective" and "fingerprints" in one.facts
    ]
    if not reports:
        return None
    own, calls = _calls(reports)
    odd = _minority(own)
    same = len({said[0] for said in calls.values()}) == 1
    identity = f"dist.{'rank_divergence_undetermined' if odd is None else 'rank_divergent_control_flow'}"
    shown = [
        f"rank {rank} is in {op}{f' with shape [{shape}]' if shape else ''}" for rank, (op, shape, _) in calls.items()
    ]
    facts = {"difference": "; ".join(shown[:8]), "rank": str(odd)}
    if odd is None:
        facts["missing"] = _undecided(calls, same=same)
    lines = tuple(line for one in reports[:4] for line in one.lines)
    step = "the collectives' fingerprints, by their own reports"
    made = verdict("dist.mismatched_collective" if same else identity, facts, lines, step, odd)
    involved = frozenset() if odd is not None else frozenset(calls)
    known = odd is not None
    place = next((one for one in reports if one.rank == odd), reports[0]).place
    return replace(made, place=place, said=reports[0].said, left_alone=known, involved=involved)


def _calls(reports: list[Found]) -> tuple[dict[int, Call], dict[int, Call]]:
    """What each rank said of itself, and that together with what was said of others."""
    own: dict[int, Call] = {}
    both: dict[int, Call] = {}
    for report in reports:
        for at, call in enumerate(_CALLS.finditer(report.facts["fingerprints"])):
            said = call["op"], call["shape"] or "", call["dtype"] or ""
            (own if at == 0 else both)[int(call["rank"])] = said
    return own, dict(sorted({**both, **own}.items()))


def _undecided(calls: dict[int, Call], *, same: bool) -> str:
    ranks = " and ".join(map(str, sorted(calls)[:4]))
    if same:
        shapes = " or ".join(dict.fromkeys(shape for _, shape, _ in calls.values() if shape))
        return f"which rank's shape is intended ({shapes or 'ranks ' + ranks})"
    return f"which of ranks {ranks} departed from the program (no majority): the stacks of both"


def _minority(calls: dict[int, Call]) -> int | None:
    """The one rank among three or more whose call no other made, where all others agree."""
    if len(calls) < 3:
        return None
    groups: dict[Call, list[int]] = {}
    for rank, said in calls.items():
        groups.setdefault(said, []).append(rank)
    alone = [ranks[0] for ranks in groups.values() if len(ranks) == 1]
    return alone[0] if len(groups) == 2 and len(alone) == 1 else None


def by_own_error(case: Case) -> Verdict | None:
    """The rank or ranks whose error nobody else explains."""
    own = [one for one in case.own if not one.signature.finished]
    if not own:
        return _interrupted(case) or _asserted(case)
    best = _best_by_rank(own)
    if set(best) == {None}:
        return _of_nobody(case, best[None])
    ranked = {rank: one for rank, one in best.items() if rank is not None}
    nobody = best.get(None)
    if nobody is not None and nobody.weight > max(one.weight for one in ranked.values()):
        return _of_nobody(case, nobody)
    if len(ranked) == 1:
        ((rank, one),) = ranked.items()
        others = (set(case.world) | set(case.waits)) - {rank}
        unread = _unread(case) - {rank}
        shared = one.signature.id.startswith("ddp.") and not case.waits  # of the model, which every rank builds
        named = rank if others and not unread and not shared else None
        made = _made(one, "exactly one rank has an error of its own", named, case)
        shown = ", ".join(map(str, sorted(unread)))
        return replace(made, facts={**made.facts, "unread": shown}, involved=frozenset(unread)) if unread else made
    return _of_several(case, ranked)


def _unread(case: Case) -> set[int]:
    """The ranks whose own error the text may lack: it ends inside it, or began after it."""
    ended = {e.rank for e in case.exits.values() if e.code > 0 and (case.cut or e.code == 1)}
    return (set(case.unfinished) | ended) - set(case.waits)


def _of_several(case: Case, ranked: dict[int, Found]) -> Verdict:
    everyone = frozenset(ranked)
    by_kind = {(one.signature.id, "" if one.weight else _normal(one.said)) for one in ranked.values()}
    first = min(ranked.values(), key=lambda one: (-len(one.facts), one.lines[-1]))
    if len(by_kind) == 1:
        return _made(first, "every rank that failed has the same error: code or configuration", None, case, everyone)
    times = {rank: one.time for rank, one in ranked.items()}
    hosts = {one.host for one in ranked.values()}
    rank = first_of(times) if len(hosts) == 1 else None
    if rank is not None:
        return _made(
            ranked[rank],
            "the earliest of the ranks' own errors, by the clocks of the log",
            rank,
            case,
            everyone - {rank},
        )
    shown = "; ".join(f"rank {rank}: {one.said}" for rank, one in sorted(ranked.items())[:4])
    facts = {"ranks": " and ".join(map(str, sorted(ranked))), "errors": shown}
    lines = tuple(sorted(one.lines[-1] for one in ranked.values()))
    made = verdict(
        "ambiguous.concurrent_failures", facts, lines, "different errors on several ranks, in an unknown order"
    )
    return Verdict(made.kind, made.facts, made.lines, made.step, involved=everyone)


def _best_by_rank(own: list[Found]) -> dict[int | None, Found]:
    best: dict[int | None, Found] = {}
    for one in own:
        if one.rank not in best or one.weight > best[one.rank].weight:
            before = best.get(one.rank)
            best[one.rank] = _with_time(_with_place(one, before), before)
        elif best[one.rank].place is None and one.place is not None and not best[one.rank].signature.asynchronous:
            best[one.rank] = _with_place(best[one.rank], one)
        best[one.rank] = _with_time(best[one.rank], one)
    return best


def _with_time(one: Found, other: Found | None) -> Found:
    """An error file gives the time of an error that the rank printed without one."""
    same = other is not None and (other.said == one.said or not one.said)
    return replace(one, time=other.time) if other is not None and same and not one.time else one


def _with_place(one: Found, other: Found | None) -> Found:
    if one.place is not None or other is None or one.signature.asynchronous:
        return one
    return replace(one, place=other.place, lines=tuple(sorted({*one.lines, *other.lines})), said=one.said or other.said)


def _of_nobody(case: Case, one: Found) -> Verdict:
    """An error without a rank before it: the launcher may show whose it was."""
    spawned = case.first("spawned_failed")
    if spawned is not None and spawned.rank is not None:
        return _made(one, "the launcher names the process whose traceback it prints", spawned.rank, case)
    exits = case.exits.values()
    crash = {"proc.segfault": -11, "proc.sigbus": -7}.get(one.signature.id)
    alike = [e.rank for e in exits if (e.code == crash if crash is not None else e.code > 0)]
    others = (set(case.world) | set(case.waits)) - set(alike)
    if len(alike) == 1 and others and (case.complete or crash is not None):
        return _made(one, "the only rank that ended with the code this error gives", alike[0], case)
    return _made(one, "the only error that nothing else explains", None, case, frozenset(alike))


def _asserted(case: Case) -> Verdict | None:
    """A kernel's assertion whose error is cut off: it ends its process, and the error comes with the next call."""
    asserted = case.notices.get("assertion", ())
    if not asserted or case.waiting or finished_well(case):
        return None
    for kind in (KINDS[f"cuda.device_assert.{what}"] for what in ("index", "target", "unknown")):
        facts = kind.read(Seen(dict(kind.extra), "", "", case.notices))
        if facts is not None:
            return verdict(kind.id, facts, tuple(n.line for n in asserted[:2]), "a kernel printed a failed assertion")
    return None


def _interrupted(case: Case) -> Verdict | None:
    stopped = [one for one in case.own if one.signature.finished]
    return _made(stopped[0], "stopped by SIGINT", None, case, frozenset(case.world)) if stopped else None


def _made(one: Found, step: str, rank: int | None, case: Case, involved: frozenset[int] = frozenset()) -> Verdict:
    facts = {"rank": str(rank), **one.facts}
    if "who" in one.facts:
        facts["who"] = f"Rank {rank}" if rank is not None else "The process"
    others = tuple(
        o for o in case.own if o.signature.id != one.signature.id and o.weight > 0 and o.lines[0] > one.lines[-1]
    )
    return Verdict(
        one.signature,
        facts,
        one.lines,
        step,
        rank,
        one.place,
        one.said,
        involved,
        truncated=one.truncated,
        also=others[:3],
    )


def _normal(text: str) -> str:
    return _NUMBERS.sub("#", text)
