"""Ranks that ended without a word: by a signal, or with a status that the others do not have."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from remat.diagnose.evidence import SIGNALS, Case, Exit
from remat.diagnose.verdict import Verdict, verdict

_REJECTED = re.compile(
    r"unrecognized arguments|arguments are required|^argument |invalid choice|expected (?:one|at least one) "
    r"argument|No such option|Missing (?:option|argument)|Invalid value for"
)
_OTHER_SIZE = re.compile(r"Received data size doesn't match|op\.preamble\.length <= op\.nbytes")
_CRASHES = {
    -9: "proc.sigkill_unknown",
    -11: "proc.segfault",
    -7: "proc.sigbus",
    -10: "proc.sigbus",
    137: "proc.sigkill_unknown",
    139: "proc.segfault",
    135: "proc.sigbus",
}

if TYPE_CHECKING:
    from remat.diagnose.signature import Noticed


def by_command_line(case: Case) -> Verdict | None:
    """An argument parser's complaint, or a shell's: nothing ran."""
    missing = case.first("cannot_open")
    if missing is not None:
        what = {"what": f"the script {missing.facts['path']}: Python could not open it"}
        return verdict("io.file_missing", what, (missing.line,), "the interpreter's own message", left_alone=False)
    for notice in case.notices.get("usage", ()):
        if _REJECTED.search(notice.facts["message"]):
            return verdict(
                "config.cli_argument",
                notice.facts,
                (notice.line,),
                "the argument parser's own message",
                left_alone=False,
            )
    return None


def by_exit(case: Case) -> Verdict | None:
    """The one rank whose process ended in a way the others' did not."""
    forced = bool(case.notices.get("forced")) or bool(case.notices.get("deepspeed_kill"))
    crashed = [e for e in case.exits.values() if e.code in _CRASHES and not (forced and e.code == -9)]
    if crashed:
        return _crash(crashed)
    stopped = _stopped_alone(case)
    if stopped is not None:
        return stopped
    aborted = _aborted(case)
    if aborted is not None:
        return aborted
    unread = {1} if case.cut else set()  # what a traceback above the text ends with
    positive = [e for e in case.exits.values() if e.code > 0 and e.code not in unread and e.rank not in case.waits]
    silent = [e for e in case.exits.values() if e.code == -6 and e.rank not in case.waits]
    if len(positive) == 1 and not silent and (case.complete or case.waits) and (case.waits or len(case.world) > 1):
        (ended,) = positive
        facts = {"who": f"rank {ended.rank}", "code": str(ended.code)}
        return verdict(
            "proc.exit_no_trace",
            facts,
            (ended.line,),
            "the only rank that ended with an error status of its own",
            ended.rank,
        )
    return _without_launcher(case)


def _crash(crashed: list[Exit]) -> Verdict | None:
    kinds = {_CRASHES[e.code] for e in crashed}
    first = min(crashed, key=lambda e: e.line)
    rank = first.rank if len(crashed) == 1 else None
    if len(kinds) > 1:
        return None
    ranks = sorted(e.rank for e in crashed)
    who = f"Rank {rank}" if rank is not None else f"Ranks {', '.join(map(str, ranks))} each"
    facts = {"who": who}
    lines = tuple(e.line for e in crashed[:4])
    made = verdict(kinds.pop(), facts, lines, "the launcher shows how the process ended", rank)
    return replace(_unsettled(made), involved=frozenset(ranks))


def _stopped_alone(case: Case) -> Verdict | None:
    """SIGTERM that the launcher did not send: it sent its closing signal to every rank but this one."""
    closing = {int(n.facts["pid"]) for n in case.notices.get("closing", ())}
    alone = [
        e for e in case.exits.values() if e.code == -15 and e.pid and e.pid not in closing and e.rank not in case.waits
    ]
    listed = {e.pid for e in case.exits.values()}
    if len(alone) != 1 or not closing or not closing <= listed or case.notices.get("timeout"):
        return None
    if len({n.host for n in case.notices["closing"]}) > 1:
        return None
    (ended,) = alone
    facts = {"why": f"rank {ended.rank} got SIGTERM, and not from the launcher, which closed only the others"}
    lines = (ended.line, *(n.line for n in case.notices["closing"][:2]))
    return verdict("proc.sigterm_preempt", facts, lines, "the pid is not among those the launcher closed", ended.rank)


def _aborted(case: Case) -> Verdict | None:
    """SIGABRT counts only where the rank has no waiting text of its own."""
    what = case.first("cpp_what")
    if what is not None and _OTHER_SIZE.search(what.facts["what"]):
        victims = frozenset(e.rank for e in case.exits.values() if e.code == -6)
        facts = {
            "difference": what.facts["what"][:200],
            "missing": "which rank sent another size than the receivers expected: print the tensor's shape on "
            "every rank",
        }
        made = verdict(
            "dist.mismatched_collective", facts, (what.line,), "gloo's receiver met another size than it expected"
        )
        return Verdict(made.kind, made.facts, made.lines, made.step, involved=frozenset(), left_alone=bool(victims))
    aborted = [e for e in case.exits.values() if e.code == -6 and e.rank not in case.waits]
    if len(aborted) != 1 or case.waits or what is None:
        return None
    facts = {"who": f"Rank {aborted[0].rank}", "what": what.facts["what"][:200]}
    rank = aborted[0].rank if case.world - {aborted[0].rank} else None
    return verdict("proc.abort", facts, (what.line, aborted[0].line), "the only rank that was aborted", rank)


def _without_launcher(case: Case) -> Verdict | None:
    """A shell's `Killed`, `Segmentation fault` or `Bus error`."""
    if case.exits or case.waits:
        return None
    if (ended := case.first("deepspeed_exit")) is not None and (code := int(ended.facts["code"])) in _CRASHES:
        who = {"who": "A process (DeepSpeed's launcher does not say which)"}
        return _unsettled(verdict(_CRASHES[code], who, (ended.line,), "the launcher shows how a process ended"))
    if (violation := case.first("access_violation")) is not None:
        facts = {
            "who": "The process",
            "dump": "",
            "how": f"an access violation (Windows' exit status {violation.facts['code']})",
        }
        return _unsettled(verdict("proc.segfault", facts, (violation.line,), "the exit status is Windows' 0xC0000005"))
    if (uncaught := _uncaught(case)) is not None:
        return uncaught
    signalled = case.first("signalled")
    names = (("killed", "proc.sigkill_unknown"), ("faulted", "proc.segfault"), ("bus_fault", "proc.sigbus"))
    notice: Noticed | None = None
    for name, identity in names:
        notice = case.first(name)
        if (
            signalled is not None
            and signalled.facts["signal"] == {"killed": "SIGKILL", "faulted": "SIGSEGV", "bus_fault": "SIGBUS"}[name]
        ):
            notice = notice or signalled
        if notice is not None and notice.line >= case.last - 40:
            who = {"who": "The process"}
            return _unsettled(verdict(identity, who, (notice.line,), "the shell shows how the process ended"))
    return None


def _uncaught(case: Case) -> Verdict | None:
    """A C++ exception that ended the process, as the shell confirms."""
    what, aborted = case.first("cpp_what"), case.first("aborted")
    if what is None or aborted is None or aborted.line < what.line:
        return None
    lines = (what.line, aborted.line)
    if "bad_alloc" in what.facts["what"]:
        asked = {"bytes": "the memory it asked for (std::bad_alloc)"}
        return verdict("mem.host_cpu_alloc", asked, lines, "the C++ exception says that an allocation failed")
    facts = {"who": "The process", "what": what.facts["what"][:200]}
    return verdict("proc.abort", facts, lines, "an uncaught C++ exception, and the shell's report of the abort")


def _unsettled(made: Verdict) -> Verdict:
    """Without a stack the signal's reason is missing."""
    return replace(made, facts={key: value for key, value in made.facts.items() if key != "settled"})


_BOTH_UNSAID = (
    "any rank's traceback: the ranks exited with an error and none printed it (stderr of the ranks, error files)"
)
_OF_RAY = {
    "rerun": "ray list actors --filter state=DEAD --detail",
    "elsewhere": "the dead worker's files under /tmp/ray/session_latest/logs on its node; dmesg -T there",
}
_UNSAID = (
    "root",
    "entry_text",
    "dynamo",
    "ray_died",
    "deepspeed_exit",
    "exit_code",
)  # somebody says that a process failed, and no more


def _unsaid_by(rank: int, case: Case) -> str:
    """The launcher's list is asked for only where it is cut off."""
    if "root" in case.notices and "others" not in case.notices:
        return (
            f"the Failures list and rank {rank}'s traceback above the selection; torchelastic's Root Cause alone is "
            "the first the agent noticed"
        )
    return f"rank {rank}'s own traceback (its stderr, log or error file): its exit code does not say why"


def unexplained(case: Case) -> Verdict | None:
    """Something failed, and nothing shows what."""
    lines = case.launcher or tuple(line for found in case.waits.values() for line in found)[:4]
    bad = sorted(e.rank for e in case.exits.values() if e.code not in {0, -15})
    told = case.exits or case.waits or case.gave_up or any(name in case.notices for name in _UNSAID)
    lines = lines if told else case.broken_off[:4]
    if not lines:
        return None
    if len(bad) > 1:
        codes = {case.exits[rank].code for rank in bad}
        named = ", ".join(map(str, bad))
        shown = (
            f"ranks {named} ended with {_said(codes)}, in an unknown order (the same second), and none printed an error"
        )
        needed = _BOTH_UNSAID
    elif bad:
        code = case.exits[bad[0]].code
        shown = f"the launcher noticed rank {bad[0]} first (exit code {code}), which is not proof that it began there"
        needed = _unsaid_by(bad[0], case)
    elif not told:
        shown = "the text ends in the middle of a traceback, before it says what was raised"
        needed = "the traceback to its last line: the exception and its message"
    elif not case.waits:
        shown = "only that a process ended, or died, is reported"
        needed = "the traceback or stderr of the process that ended: its own log"
    else:
        shown = "only ranks that lost a peer are shown"
        needed = "the log of the peer that closed its connection or stalled: its traceback, stderr and exit code"
    of_ray = "ray_died" in case.notices and not case.exits
    made = verdict(
        "ambiguous.no_traceback",
        {"shown": shown, "needed": needed, **(_OF_RAY if of_ray else {})},
        lines,
        "only consequences are shown",
        left_alone=False,
    )
    return Verdict(made.kind, made.facts, made.lines, made.step, involved=frozenset(bad), left_alone=not bad)


def _said(codes: set[int]) -> str:
    return "exit code " + ", ".join(
        f"{code}{f' ({SIGNALS[-code]})' if -code in SIGNALS else ''}" for code in sorted(codes)
    )
