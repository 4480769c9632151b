"""From what all ranks said to one answer: the figures of the rank that took most, or which rank failed first."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from remat.probe.messages import Failure, Location, Missing, Range, RankFigures, VariantResult

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from remat.probe.ranks.spoken import Heard

_PEER_IS_GONE = re.compile(
    r"gloo/transport|closed by peer|reset by peer|Broken pipe|remote process|DistBackendError|DistNetworkError"
)
"""how a rank tells that another has left"""
_KILLED = int(getattr(signal, "SIGKILL", 9))  # Windows has none
_ENDED_FOR_ANOTHER = -int(signal.SIGTERM)
"""torchrun ends the others so"""


@dataclass(frozen=True, slots=True)
class Ending:
    """Why nothing more is heard. `statuses`: of ranks that ended, by rank, as torchrun tells them."""

    seconds: float | None = None
    """the limit that was reached"""
    statuses: Mapping[int, int] | None = None
    last_words: str = ""
    """what torchrun and the ranks printed last"""


def gathered(variant: str, ranks: Sequence[Heard], size: int, ending: Ending) -> VariantResult | Failure:
    """One answer of `size` ranks."""
    results = {one.rank: one.result for one in ranks if one.result is not None}
    failed = _first(ranks, size, ending)
    if len(results) == size and failed is None:
        return _worst(results, untraced=not all(one.is_done for one in ranks))
    told = _told(variant, ranks, size, ending) if failed is None else failed
    return replace(told, variant=variant, details=told.details or ending.last_words)


# ---- figures


def _worst(results: Mapping[int, VariantResult], *, untraced: bool) -> VariantResult:
    """The rank with most allocated; what is reserved, held and waited for is the most of any rank."""
    every = [
        RankFigures(rank, one.allocated_bytes, one.reserved_bytes, one.process_bytes, one.step_seconds or 0.0)
        for rank, one in sorted(results.items())
    ]
    rank = max(results, key=lambda number: (results[number].allocated_bytes, -number))
    worst = results[rank]
    reserved = [one.reserved_bytes for one in every if one.reserved_bytes is not None]
    spread = [one.step_seconds_range for one in results.values() if one.step_seconds_range is not None]
    process = [one.process_bytes for one in every if one.process_bytes is not None]
    notes = [f"the figures are those of rank {rank}, which took most; reserved and times are the most of any rank"]
    if untraced:
        notes.append("what the memory holds is not known on every rank: one did not end its traced steps")
    return replace(
        worst,
        reserved_bytes=max(reserved, default=None),
        process_bytes=max(process, key=lambda one: one.high, default=None),
        step_seconds=max(one.step_seconds for one in every),
        step_seconds_range=Range(min(r.low for r in spread), max(r.high for r in spread)) if spread else None,
        assumptions=(*worst.assumptions, *notes),
        ranks=tuple(every),
    )


# ---- failures


def _first(ranks: Sequence[Heard], size: int, ending: Ending) -> Failure | None:
    """The rank that failed first. One that says only that another is gone is none; one that died without a word is."""
    said = sorted((one for one in ranks if one.failure is not None), key=lambda one: one.at)
    own = [one for one in said if not says_another_is_gone(one)]
    died = _died(ranks, size, ending)
    if own:
        return _of(own[0], own, size)
    if died:
        return died
    return _of(said[0], said, size) if said else None


def says_another_is_gone(one: Heard) -> bool:
    return one.failure is not None and _PEER_IS_GONE.search(one.failure.message) is not None


def _of(first: Heard, failed: Sequence[Heard], size: int) -> Failure | None:
    failure = first.failure
    if failure is None:
        return None
    alike = [one for one in failed if one.failure and one.failure.message == failure.message]
    if len(alike) == size:
        return failure if size == 1 else replace(failure, message=f"{failure.message} (on each of the {size} ranks)")
    message = f"rank {first.rank} of {size}: {failure.message}; the others were ended"
    missing = failure.missing
    if missing is not None and missing.fact == failure.message:
        missing = Missing(message, missing.how)
    return replace(failure, message=message, missing=missing)


def _died(ranks: Sequence[Heard], size: int, ending: Ending) -> Failure | None:
    """A rank that ended and left no word: a fault, or something outside ended it."""
    heard = {one.rank: one for one in ranks}
    for rank, status in sorted((ending.statuses or {}).items()):
        one = heard.get(rank)
        if status in {0, _ENDED_FOR_ANOTHER} or (one is not None and one.failure is not None):
            continue
        where = _where(one.place) if one else ""
        during = one.stage if one else "import"
        short = ", as the system does when memory is short" if status == -_KILLED else ""
        text = f"rank {rank} of {size} ended {_how(status)}{short} during {during}{where}; the others were ended"
        return Failure(None, "measure", text, one.place if one else None)
    return None


def _told(variant: str, ranks: Sequence[Heard], size: int, ending: Ending) -> Failure:
    """Nobody failed, and yet not every rank has an answer."""
    place = next((one.place for one in ranks if one.place is not None and not one.is_done), None)
    if ending.seconds is not None:
        at = [f"rank {one.rank} was at {_doing(one)}{_where(one.place, ', ')}" for one in ranks]
        at += [f"rank {rank} had not begun" for rank in range(size) if rank not in {one.rank for one in ranks}]
        text = f"stopped after {ending.seconds:g} s, the limit: {'; '.join(at[:_LISTED])}"
        text += f"; and {len(at) - _LISTED} more" if len(at) > _LISTED else ""
        return Failure(variant, "measure", text, place)
    begun = f"{len(ranks)} of {size} ranks had begun"
    last = next((line for line in reversed(ending.last_words.splitlines()) if line.strip()), "nothing")
    return Failure(variant, "measure", f"torchrun ended before every rank had an answer ({begun}); it said: {last}")


_LISTED = 8


def _doing(one: Heard) -> str:
    return "its end, waiting for the others" if one.is_done else one.stage


def _where(place: Location | None, before: str = "; the code was at ") -> str:
    return f"{before}{place.path}:{place.line}" if place else ""


def _how(status: int) -> str:
    if status >= 0:
        return f"with status {status}"
    try:
        return f"by {signal.Signals(-status).name}"
    except ValueError:
        return f"by signal {-status}"
