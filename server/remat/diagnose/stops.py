"""Ends that came from outside the program: schedulers, nodes, the kernel, the hardware, a person."""

from __future__ import annotations

from typing import TYPE_CHECKING

from remat.diagnose.no_failure import finished_well
from remat.diagnose.verdict import Verdict, verdict

if TYPE_CHECKING:
    from remat.diagnose.evidence import Case
    from remat.diagnose.signature import Noticed

# Xid numbers that a program can cause (illegal accesses and their like); every other one is hardware or driver.
_OF_PROGRAMS = {"13", "31", "43", "45", "68", "69"}
_SIGNALS = {"15": "SIGTERM", "2": "SIGINT", "1": "SIGHUP", "3": "SIGQUIT", "10": "SIGUSR1", "12": "SIGUSR2"}


def from_outside(case: Case) -> Verdict | None:
    """A stop that the text names, before any rank failed by itself."""
    failed_at = min((one.lines[-1] for one in case.own if not one.signature.finished), default=None)
    node = case.first("node_failure")
    if node is not None and (failed_at is None or node.line < failed_at):
        return verdict(
            "proc.node_failure",
            {"node": node.facts.get("node") or "a node"},
            (node.line,),
            "the scheduler names a failed node",
        )
    stop = next((n for n in case.notices.get("cancelled", ()) if "why" in n.facts or not _srun_stopped_it(case)), None)
    death = case.first("death") or case.first("got_signal")
    first = min((n.line for n in (stop, death) if n is not None), default=None)
    if first is None or (failed_at is not None and failed_at < first):
        return None
    why = stop.facts.get("why") if stop is not None else None
    lines = tuple(n.line for n in (stop, death) if n is not None)
    if why == "TIME LIMIT":
        return verdict("proc.time_limit", {}, lines, "the scheduler names its time limit")
    if why == "NODE FAILURE":
        return verdict("proc.node_failure", {"node": "a node"}, lines, "the scheduler names a node failure")
    if why is not None or case.first("evicted"):
        named = why or "eviction"
        return verdict(
            "proc.sigterm_preempt", {"why": named, "settled": named}, lines, "the scheduler names the reason"
        )
    if stop is not None:
        return verdict(
            "proc.sigterm_preempt", {"why": "the job was cancelled"}, lines, "the scheduler cancelled the job"
        )
    return _by_signal(death.facts.get("signal", "15") if death is not None else "15", lines)


def _by_signal(signal: str, lines: tuple[int, ...]) -> Verdict | None:
    """What the launcher's signal tells of who sent it; Ctrl+C is for the traceback that it leaves."""
    named = _SIGNALS.get(signal, signal)
    step = "the launcher received the signal before any rank failed"
    if named == "SIGINT":
        return None
    if named == "SIGHUP":
        return verdict("proc.sighup", {}, lines, step)
    return verdict("proc.sigterm_preempt", {"why": f"the launcher received {named}"}, lines, step)


def _srun_stopped_it(case: Case) -> bool:
    """A task that failed by itself: srun ends the step then, and slurmstepd reports that as a cancellation."""
    failed = any(n.facts["how"] != "Terminated" for n in case.notices.get("task_ended", ()))
    return failed or bool(case.notices.get("oom_kill"))


def by_the_machine(case: Case) -> Verdict | None:
    """The out-of-memory killer's record, or a hardware fault in the kernel log."""
    return _out_of_memory(case) or _hardware(case)


def _out_of_memory(case: Case) -> Verdict | None:
    records = case.notices.get("oom_kill", ()) or _counted(case)
    tasks = [n for n in case.notices.get("task_ended", ()) if n.facts["how"] == "Out Of Memory"]
    if not (records or tasks) or (finished_well(case) and not case.first("killed")):
        return None
    ranks = {e.rank: e for e in case.exits.values() for n in records if n.facts.get("pid") == str(e.pid) and e.pid}
    workers = {
        one.rank: one for one in case.own if any(n.facts.get("pid", "-") in one.facts.get("pid", "") for n in records)
    }
    killed = [e.rank for e in case.exits.values() if e.code == -9]
    rank: int | None = None
    if len(ranks) == 1:
        (rank,) = ranks
    elif len(workers) == 1:
        (rank,) = workers
    elif tasks and len(tasks) == 1 and tasks[0].facts["tasks"].isdigit():
        rank = int(tasks[0].facts["tasks"])
    elif not ranks and len(killed) == 1 and not any(n.facts.get("pid") for n in records):
        (rank,) = killed
    shown = next((n for n in records if "pid" in n.facts), (*records, *tasks)[0])
    if records and not ranks and not workers and not killed and not tasks and case.own and not _killed_something(case):
        return None  # a record of another process: the failure has its own text
    lines = tuple(
        dict.fromkeys((*(n.line for n in (shown, *records[:2], *tasks[:2])), *(e.line for e in ranks.values())))
    )
    facts = {"record": _record(shown), "rss": _resident(shown)}
    return verdict("mem.host_oom_kill", facts, lines, "the out-of-memory record names the process", rank)


def _counted(case: Case) -> tuple[Noticed, ...]:
    """The counter of a memory cgroup, where a process was killed: it does not say when it was raised."""
    killed = case.first("killed") or any(e.code in {-9, 137} for e in case.exits.values()) or _killed_something(case)
    return case.notices.get("oom_count", ()) if killed else ()


def _killed_something(case: Case) -> bool:
    return any(one.signature.id in {"data.worker_killed", "proc.sigkill_unknown"} for one in case.own)


def _record(notice: Noticed) -> str:
    facts = notice.facts
    if "scope" in facts:
        where = "in its memory cgroup" if facts["scope"].startswith("Memory cgroup") else "on the host"
        return f"it killed process {facts['pid']} ({facts['process']}) {where} for host memory"
    return facts.get("text", "").strip() or f"task {facts.get('tasks', '?')}: Out Of Memory"


def _resident(notice: Noticed) -> str:
    rss = notice.facts.get("rss", "")
    return f" Its anon-rss was {int(rss) / (1 << 20):.1f} GiB." if rss.isdigit() else ""


def _hardware(case: Case) -> Verdict | None:
    xid = next((n for n in case.notices.get("xid", ()) if n.facts["xid"] not in _OF_PROGRAMS), None)
    if xid is None:
        return None
    cuda = [one for one in case.own if "CUDA" in one.said or one.signature.id.startswith("cuda.")]
    others = [one for one in case.own if one not in cuda]
    if any(one.lines[-1] < xid.line for one in others) or any(one.signature.id == "cuda.ecc" for one in cuda):
        return None
    ranks = {one.rank for one in cuda}
    rank = ranks.pop() if len(ranks) == 1 and case.world - ranks else None
    lines = (xid.line, *(one.lines[-1] for one in cuda[:1]))
    return verdict("cuda.xid_hardware", xid.facts, lines, "the kernel log names the faulty GPU", rank)
