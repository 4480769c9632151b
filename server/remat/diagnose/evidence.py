"""Everything one run shows, gathered by rank: what blame is decided on."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from remat.diagnose.notices import MOST_RANKS
from remat.diagnose.recognise import Found, of_launcher, recognise
from remat.diagnose.signatures import KINDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from remat.diagnose.reading import Run
    from remat.diagnose.signature import Facts, Noticed
    from remat.diagnose.tracebacks import Failure

_ENDED = ("exit_code", "entry_text", "dynamo", "task_ended", "spawned_ended")
_REPORTED = ("failed", "root", "entry_code", "death", "deepspeed_exit", "ray_died", *_ENDED)
# The first line of a text without its head: the inside of a traceback, its last line, the end of a launcher's report.
_CONTINUES = re.compile(
    r"[ \t~^]|[A-Za-z_][\w.]*(?:Error|Exception)\b|[=-]{8}|.{1,200} FAILED$|Failures:|Root Cause|\[\d+\]:$"
    r"|failed \(exitcode|Sending process \d+ closing signal"
)
_DIGITS = 7
_FAILED = {"failed", "entry_code", "deepspeed_exit", "task_ended"}  # what launchers say of a run that failed
SIGNALS = {6: "SIGABRT", 7: "SIGBUS", 9: "SIGKILL", 10: "SIGBUS", 11: "SIGSEGV", 15: "SIGTERM"}


@dataclass(frozen=True, slots=True)
class Exit:
    """How a rank's process ended, as a launcher saw it."""

    rank: int
    code: int
    pid: int
    line: int
    time: str = ""
    host: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    """The evidence. `world`: every rank that is known to exist; `complete`: the launcher's list is whole."""

    own: tuple[Found, ...]
    waiting: tuple[Found, ...]
    exits: dict[int, Exit]
    notices: dict[str, tuple[Noticed, ...]]
    world: frozenset[int]
    seen: dict[int, int]
    terminated: dict[int, int]  # rank -> line of the launcher's closing signal
    complete: bool
    launcher: tuple[int, ...]  # lines of the launcher that say something failed
    later: tuple[Found, ...] = ()  # failures of later attempts
    last: int = 1
    told: frozenset[int] = frozenset()  # ranks that raised again what another one's checkpoint told them
    waits: dict[int, tuple[int, ...]] = field(default_factory=dict)  # rank -> lines that show it waiting
    cut: bool = False  # the text begins in the middle of something
    unfinished: frozenset[int] = frozenset()  # ranks in the middle of a traceback where the text ends
    broken_off: tuple[int, ...] = ()  # the last lines of tracebacks that the text ends in
    gave_up: bool = False  # a launcher raised: what it had started failed

    def first(self, name: str) -> Noticed | None:
        found = self.notices.get(name)
        return found[0] if found else None


def gather(run: Run) -> Case:
    notices = {name: tuple(found) for name, found in run.notices.items()}
    printed = _printed(run, notices)
    found = _recognised(printed, notices) + _bare(notices)
    boundary = _restarted_at(notices)
    if boundary and any(n.line > boundary for n in notices.get("group_ended", ())) and "root" not in notices:
        found = []  # what failed was restarted, and that ended well
        notices = {name: kept for name, kept in notices.items() if name not in _FAILED | {"timeout", "status"}}
    later = tuple(one for one in found if boundary and one.lines[-1] > boundary)
    found = [one for one in found if one not in later]
    if boundary and not (found or later) and "root" not in notices and run.recovered_count:
        notices.pop("failed", None)  # the restart helped: what failed was recovered from
    if _helped(run, notices):
        found, notices = [], {name: kept for name, kept in notices.items() if name not in _FAILED}
    exits = _exits(notices, boundary)
    if later and not found and not exits:
        found, later = list(later), ()  # the attempts before ended without a trace, or with one that lines followed
    terminated, known_by_pid = _terminated(notices, exits, boundary)
    waits = {**_told_by_others(printed), **_waits(notices, found)}
    world = frozenset(exits) | frozenset(run.ranks) | frozenset(waits) | known_by_pid | _between(notices)
    return Case(
        own=tuple(one for one in found if not one.waiting),
        waiting=tuple(one for one in found if one.waiting),
        exits=exits,
        notices=notices,
        world=world,
        seen=dict(run.ranks),
        terminated=terminated,
        complete=_complete(notices),
        launcher=(*(n.line for name in _REPORTED for n in notices.get(name, ())), *_given_up(run))[:4],
        later=later,
        last=max(run.last, 1),
        told=frozenset(_told_by_others(printed)),
        waits=waits,
        cut=_CONTINUES.match(run.beginning) is not None,
        unfinished=run.unfinished,
        broken_off=run.broken_off,
        gave_up=bool(_given_up(run)),
    )


def _printed(run: Run, notices: dict[str, tuple[Noticed, ...]]) -> list[Failure]:
    """The failures that count: no launcher's own, and a launcher's copy only where the rank did not print it."""
    printed = [failure for failure in run.failures if not of_launcher(failure)]
    boundary = _restarted_at(notices)
    first = [failure for failure in printed if boundary is None or failure.at <= boundary]
    if not first and run.recovered and not _FAILED.isdisjoint(notices) and not _helped(run, notices):
        printed = [*_not_recovered_after_all(run, notices), *printed]
    named = {failure.rank for failure in printed}
    return printed + [one for one in run.entry_failures if one.rank not in named and not of_launcher(one)]


def _recognised(printed: list[Failure], notices: dict[str, tuple[Noticed, ...]]) -> list[Found]:
    origin = _origin(printed)
    found = []
    for failure in printed:
        one = recognise(failure, notices)
        found.append(replace(one, rank=origin) if origin is not None and failure.origins else one)
    return [one for one in found if not one.logged] or found


def _told_by_others(printed: list[Failure]) -> dict[int, tuple[int, ...]]:
    """The ranks that raise again what a distributed checkpoint told them of another one."""
    origin = _origin(printed)
    told = [one for one in printed if one.origins and one.rank is not None and one.rank != origin]
    return {one.rank: (one.chain[0].at,) for one in told if one.rank is not None} if origin is not None else {}


def _complete(notices: dict[str, tuple[Noticed, ...]]) -> bool:
    """Whether a launcher's list is there from its head to its last entry, which stands under Root Cause."""
    root = notices.get("root", ())
    return "others" in notices and any(n.line > root[-1].line for n in notices.get("entry_rank", ()) if root)


def _given_up(run: Run) -> list[int]:
    """The lines of a launcher's own exception: it says that what it had started failed."""
    raised = (failure.chain[-1] for failure in run.failures)
    return [one.at for one in raised if one.type.rpartition(".")[2] in {"CalledProcessError", "ChildFailedError"}]


def _between(notices: dict[str, tuple[Noticed, ...]]) -> frozenset[int]:
    """The ranks below the highest in the list of a launcher on one host: it numbers the processes it starts from 0."""
    listed = notices.get("entry_rank", ()) if _complete(notices) else ()
    first = {int(entry.facts["rank"]) - int(entry.facts["local"]) for entry in listed}
    hosts = {entry.facts["host"] for entry in notices.get("entry_host", ())}
    if len(first) != 1 or len(hosts) > 1:
        return frozenset()
    return frozenset(range(min(first), max(int(entry.facts["rank"]) for entry in listed)))


def _origin(printed: Sequence[Failure]) -> int | None:
    """The one rank whose exception a distributed checkpoint raised again in every rank."""
    origins = {rank for failure in printed for rank in failure.origins}
    return origins.pop() if len(origins) == 1 else None


def _not_recovered_after_all(run: Run, notices: dict[str, tuple[Noticed, ...]]) -> list[Failure]:
    """
    The error that lines of other ranks followed, where nothing before a line tells the ranks apart.

    The launcher says that something failed: a known kind if there is one, else the last.
    """
    if any(one.rank is not None for one in run.recovered):
        return []
    known = [one for one in run.recovered if recognise(one, notices).weight > 0]
    boundary = _restarted_at(notices)
    first = [one for one in known or run.recovered if boundary is None or one.at <= boundary]
    return (first or known or run.recovered)[-1:]


def _helped(run: Run, notices: dict[str, tuple[Noticed, ...]]) -> bool:
    """Whether a launcher that noticed a failure started the processes again, and these went on."""
    noticed = [one.line for name in (*_FAILED, "restart") for one in notices.get(name, ())]
    gave_up = "root" in notices or any(of_launcher(failure) for failure in run.failures)
    before = all(failure.at <= run.restarted for failure in run.failures)
    answered = len(notices.get("failed", ())) <= len(notices.get("restart", ())) and run.went_on > run.restarted
    return bool(noticed) and not gave_up and before and (answered or run.went_on > max(noticed))


def _bare(notices: dict[str, tuple[Noticed, ...]]) -> list[Found]:
    return [
        Found(
            KINDS[name[5:]], found[0].facts, found[0].rank, (found[0].line,), "", time=found[0].time, host=found[0].host
        )
        for name, found in notices.items()
        if name.startswith("bare:")
    ]


def _restarted_at(notices: dict[str, tuple[Noticed, ...]]) -> int | None:
    """The line where the first attempt ended, if the launcher made another."""
    by_agent: dict[tuple[str, str], list[Noticed]] = {}
    for notice in notices.get("failed", ()):
        by_agent.setdefault((notice.host, notice.facts.get("agent", "")), []).append(notice)
    again = [found[0].line for found in by_agent.values() if len({n.facts["pid"] for n in found}) > 1]
    restarts = [notice.line for notice in notices.get("restart", ())]
    return min([*again, *restarts], default=None)


def _exits(notices: dict[str, tuple[Noticed, ...]], boundary: int | None) -> dict[int, Exit]:
    exits: dict[int, Exit] = {}
    if boundary is None:
        codes = {notice.line: notice for notice in notices.get("entry_code", ())}
        times = {notice.line: notice.facts["time"] for notice in notices.get("entry_time", ())}
        hosts = {notice.line: notice.facts["host"] for notice in notices.get("entry_host", ())}
        for entry in notices.get("entry_rank", ()):
            rank, at = int(entry.facts["rank"]), entry.line
            code = next((codes[line] for line in range(at, at + 4) if line in codes), None)
            if code is not None and rank not in exits:
                time = next((times[line] for line in range(at, at - 5, -1) if line in times), "")
                host = next((hosts[line] for line in range(at, at - 4, -1) if line in hosts), "")
                exits[rank] = Exit(rank, int(code.facts["code"]), int(code.facts["pid"]), code.line, time, host)
    if not exits:
        for notice in notices.get("failed", ())[:1]:
            rank = int(notice.facts["local"])
            exits[rank] = Exit(rank, int(notice.facts["code"]), int(notice.facts["pid"]), notice.line)
    for notice in notices.get("spawned_ended", ()):
        signal = notice.facts.get("signal", "")
        number = next((-n for n, name in SIGNALS.items() if name == signal), int(notice.facts.get("code", "1")))
        if notice.rank is not None:
            exits[notice.rank] = Exit(notice.rank, number, 0, notice.line)
    _tasks(notices, exits)
    return exits


_HOW = {"Killed": -9, "Segmentation fault": -11, "Bus error": -7, "Aborted": -6, "Terminated": -15, "Out Of Memory": -9}


def _tasks(notices: dict[str, tuple[Noticed, ...]], exits: dict[int, Exit]) -> None:
    """Add what srun says of its tasks; a task is a rank where nothing else says otherwise."""
    for notice in notices.get("task_ended", ()):
        how = notice.facts["how"]
        code = _HOW.get(how, int(how.rsplit(" ", 1)[-1]) if how[-1].isdigit() else 1)
        for rank in _numbers(notice.facts["tasks"]):
            exits.setdefault(rank, Exit(rank, code, 0, notice.line, host=notice.facts["node"]))


def _numbers(text: str) -> list[int]:
    found: list[int] = []
    for low, _, high in (part.partition("-") for part in text.split(",")):
        if low.isdecimal() and (high or low).isdecimal() and max(len(low), len(high)) < _DIGITS:
            found += range(int(low), min(int(high or low) + 1, MOST_RANKS, int(low) + MOST_RANKS - len(found)))
    return found


def _terminated(
    notices: dict[str, tuple[Noticed, ...]], exits: dict[int, Exit], boundary: int | None
) -> tuple[dict[int, int], frozenset[int]]:
    """The ranks that the launcher stopped. It starts them in order, so that sorted process ids are local ranks."""
    closing = {
        int(n.facts["pid"]): n.line for n in notices.get("closing", ()) if boundary is None or n.line <= boundary
    }
    failed = {int(n.facts["pid"]): int(n.facts["local"]) for n in notices.get("failed", ())[:1]}
    hosts = {n.host for n in notices.get("closing", ())}
    if len(hosts) > 1:
        return {}, frozenset()
    by_pid = {exit_.pid: exit_.rank for exit_ in exits.values() if exit_.pid}
    pids = sorted({*closing, *failed, *by_pid})
    offsets = {by_pid[pid] - at for at, pid in enumerate(pids) if pid in by_pid} or {0}
    ordered = len(offsets) == 1 and all(pids.index(pid) == local for pid, local in failed.items())
    if not ordered:
        known = {by_pid[pid]: line for pid, line in closing.items() if pid in by_pid}
        return known, frozenset()
    (offset,) = offsets
    ranks = {at + offset: closing[pid] for at, pid in enumerate(pids) if pid in closing}
    return ranks, frozenset(ranks)


def _waits(notices: dict[str, tuple[Noticed, ...]], found: Sequence[Found]) -> dict[int, tuple[int, ...]]:
    waits: dict[int, tuple[int, ...]] = {}
    for name in ("timeout", "status"):
        for notice in notices.get(name, ()):
            if notice.rank is not None and len(waits.get(notice.rank, ())) < 3:
                waits[notice.rank] = (*waits.get(notice.rank, ()), notice.line)
    for notice in notices.get("recorded", ()):
        if notice.rank is not None and int(notice.facts["enqueued"]) > int(notice.facts["completed"]):
            waits.setdefault(notice.rank, (notice.line,))
    for one in found:
        rank = one.rank if one.rank is not None else _said_rank(one.facts)
        if one.waiting and rank is not None:
            waits[rank] = (*waits.get(rank, ()), *one.lines)
    return waits


def _said_rank(facts: Facts) -> int | None:
    return int(facts["waiting"]) if facts.get("waiting", "").isdigit() else None
