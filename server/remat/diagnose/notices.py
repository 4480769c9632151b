"""Lines that mean something by themselves: a launcher's, a scheduler's, a kernel's, a watchdog's, a warning."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from remat.diagnose.signature import Facts


@dataclass(frozen=True, slots=True)
class Mark:
    """`needle` is in every line that `pattern` can match."""

    name: str
    needle: str
    pattern: re.Pattern[str]


def _mark(name: str, needle: str, pattern: str = "") -> Mark:
    return Mark(name, needle, re.compile(pattern or re.escape(needle)))


LAUNCHER = (
    _mark(
        "failed",
        "failed (exitcode",
        r"failed \(exitcode: (?P<code>-?\d{1,9})\) local_rank: (?P<local>\d{1,6}) \(pid: (?P<pid>\d{1,9})\)",
    ),
    _mark(
        "failed",
        "FAILED (exitcode",  # before torch 1.11
        r"Child process (?P<pid>\d{1,9}) \(local_rank (?P<local>\d{1,6})\) FAILED \(exitcode (?P<code>-?\d{1,9})\)",
    ),
    _mark("closing", "closing signal", r"Sending process (?P<pid>\d{1,9}) closing signal (?P<signal>\w+)"),
    _mark("forced", "forcefully exiting", r"forcefully exiting via (?P<signal>\w+)"),
    _mark("death", "death signal", r"Received (?:Signals\.)?(?P<signal>\w+) death signal"),
    _mark("got_signal", "got signal: ", r"SignalException: Process (?P<pid>\d{1,9}) got signal: (?P<signal>\d{1,9})"),
    _mark("terminating", "via signal SIG", r"Terminating process (?P<pid>\d{1,9}) via signal (?P<signal>\w+)"),
    _mark(
        "spawned_failed",
        "terminated with the following",
        r"Process (?P<rank>\d{1,6}) terminated with the "
        r"following error",
    ),
    _mark(
        "spawned_ended",
        " terminated with ",
        r"[Pp]rocess (?P<rank>\d{1,6}) terminated with (?:signal (?P<signal>SIG\w+)|exit code (?P<code>\d{1,9}))",
    ),
    _mark("entry_time", "time      : ", r"^\s*time      : (?P<time>\S+)"),
    _mark("entry_host", "host      : ", r"^\s*host      : (?P<host>\S+)"),
    _mark("entry_rank", "(local_rank: ", r"^\s*rank      : (?P<rank>\d{1,6}) \(local_rank: (?P<local>\d{1,6})\)"),
    _mark("entry_code", "exitcode  : ", r"^\s*exitcode  : (?P<code>-?\d{1,9}) \(pid: (?P<pid>\d{1,9})\)"),
    _mark("entry_text", "traceback : ", r"^\s*traceback : (?P<text>.*)"),
    _mark("others", "Failures:", r"^\s*Failures:\s*$"),
    _mark("root", "Root Cause (first observed failure)"),
    _mark("restart", "restart", r"will restart worker group|restarting worker group|restart_count=[1-9]"),
    _mark(
        "task_ended",
        "srun: error: ",
        r"srun: error: (?P<node>[\w.-]+): tasks? (?P<tasks>\d{1,6}(?:[,-]\d{1,6}){0,999}): "
        r"(?P<how>Out Of Memory|Killed|Terminated|Aborted"
        r"|Segmentation fault|Bus error|Exited with exit code \d{1,9})",
    ),
    _mark(
        "cancelled",
        "CANCELLED AT",
        r"^(?!.{0,120}\.extern ON).{0,200}?CANCELLED AT \S+(?! DUE TO TASK FAILURE)"
        r"(?: DUE TO (?P<why>TIME LIMIT|PREEMPTION|NODE FAILURE|JOB REQUEUE))?",
    ),
    _mark("node_failure", "ode failure on", r"[Nn]ode failure on (?P<node>[\w.-]+)"),
    _mark("node_failure", "NodeNotReady", r"(?:\b(?P<node>[\w.-]{1,80})\s{1,8})?NodeNotReady"),
    _mark("evicted", "Evicted", r"\bEvicted\b"),
    _mark(
        "evicted",
        "Preempt",
        r"^(?!.{0,400}\b(?:handler|checkpointing|enabled|disabled|installed|registered)\b).{0,400}?"
        r"\bPreempt(?:ed|ing|ion)\b",
    ),  # not what a program says of what it would do in that case
    _mark("deepspeed_kill", "Killing subprocess", r"Killing subprocess (?P<pid>\d{1,9})"),
    _mark("usage", ": error: ", r"^(?P<program>[\w./-]+\.py|\w[\w./-]*): error: (?P<message>.+)"),
    _mark("usage", "No such option", r"^(?:Error:|[\u2502|]) (?P<message>No such option.{1,200}?)\s*(?:[\u2502|]|$)"),
    _mark("usage", "Missing option", r"^(?:Error:|[\u2502|]) (?P<message>Missing option.{1,200}?)\s*(?:[\u2502|]|$)"),
    _mark(
        "usage", "Invalid value for", r"^(?:Error:|[\u2502|]) (?P<message>Invalid value for.{1,200}?)\s*(?:[\u2502|]|$)"
    ),
    _mark("cannot_open", "can't open file", r"^\S*python\S*: can't open file '(?P<path>[^']{1,400})'"),
    _mark("no_command", "command not found", r"(?P<command>[\w.-]{1,80}): command not found"),
    _mark(
        "deepspeed_exit",
        "exits with return code",
        r"exits with return code = (?P<code>-?\d{1,9})",
    ),
    _mark("signalled", "died with <Signals", r"died with <Signals\.(?P<signal>SIG\w+): (?P<number>\d{1,9})>"),
    _mark("killed", "Killed", r"^(?:[\w./-]+: line \d+:\s*\d+ )?Killed(?:\s{2,}\S.*)?$"),
    _mark("dumped", "CheckpointException ranks:"),
    _mark("group_ended", "worker group successfully finished"),
    _mark("ray_died", "A worker died or was killed while executing a task by an unexpected system error"),
    _mark("ray_died", "The actor died unexpectedly before finishing this task"),
    _mark("access_violation", "exit status", r"exit status (?P<code>3221225477)\b"),  # of Windows, 0xC0000005
    _mark("access_violation", "exit code", r"exit code (?P<code>-1073741819|3221225477)\b"),
    _mark("aborted", "Aborted", r"^(?:[\w./-]+: line \d+:\s*\d+ )?Aborted(?: {1,40}\(core dumped\).*)?$"),
    _mark("killed", "code 137", r"exit(?:ed)? (?:with )?code 137\b"),
    _mark("killed", "exited 137"),
    _mark("faulted", "code 139", r"exit(?:ed)? (?:with )?code 139\b"),
    _mark("exit_code", "exit code", r"Process finished with exit code (?P<code>[1-9]\d{0,2})\b"),
    _mark("exit_code", "exited with code", r"[\w.-]{1,80} exited with code (?P<code>[1-9]\d{0,2})\b"),
    _mark("exit_code", "Exit Code:", r"^\s*Exit Code: {1,8}(?P<code>[1-9]\d{0,2})\b"),
    _mark("faulted", "egmentation fault", r"^(?:[\w./-]+: line \d+:\s*\d+ )?Segmentation fault(?: \(core dumped\))?"),
    _mark("bus_fault", "Bus error", r"^(?:[\w./-]+: line \d+:\s*\d+ )?Bus error(?: \(core dumped\))?"),
)
MACHINE = (
    _mark(
        "oom_kill",
        "ut of memory: Kill",
        r"(?P<scope>Memory cgroup out of memory|Out of memory): Kill(?:ed)? process (?P<pid>\d{1,9}) \("
        r"(?P<process>[^)]*)\)"
        r"(?:.*?anon-rss:(?P<rss>\d{1,18})kB)?",
    ),
    _mark("oom_kill", "oom-kill", r"(?<!Detected 0 )(?P<text>oom-kill(?: event|er\b|:constraint).*)"),
    _mark("oom_kill", "oom_kill", r"(?<!Detected 0 )(?P<text>oom_kill(?: event|er\b).*)"),
    _mark("oom_count", "oom_kill", r"\b(?P<text>oom_kill [1-9]\d{0,8})\b"),  # of memory.events: one since it was made
    _mark("oom_kill", "OOMKilled", r"(?P<text>.{0,80}OOMKilled.{0,80})"),
    _mark(
        "xid", "NVRM: Xid", r"NVRM: Xid \((?:PCI:)?(?P<pci>[0-9a-fA-F:.]+)\): (?P<xid>\d{1,9}),? ?(?P<what>.{0,200})"
    ),
    _mark("sized_up", "CUDA capability sm_", r"with CUDA capability (?P<sm>sm_\w+) is not compatible"),
    _mark("built_for", "supports CUDA capabilities", r"supports CUDA capabilities (?P<built>[\w ]+)\."),
    _mark(
        "assertion",
        "Assertion `",
        r"\b(?P<source>[\w./-]{1,160}\.cu):\d+: (?:(?P<kernel>.{0,400}?): )?block: .{0,120}?Assertion `"
        r"(?P<what>.{1,300})` failed",
    ),
    _mark("worker_bus", "Unexpected bus error encountered in worker"),
    _mark(
        "worker_ended",
        "DataLoader worker (pid",
        r"DataLoader worker \(pid(?:\(s\))? (?P<pid>[\d, ]{1,400})\) "
        r"(?:is killed by signal: (?P<signal>\w+)|exited unexpectedly)",
    ),
    _mark("shm_short", "insufficient shared memory (shm)"),
    _mark(
        "cpp_abort",
        "terminate called",
        r"terminate called (?:after throwing an instance of '(?P<type>[^']+)'"
        r"|without)",
    ),
    _mark("cpp_what", "what():", r"^\s*what\(\):\s+(?P<what>.{1,600})"),
)
NCCL = (
    _mark(
        "timeout",
        "Watchdog caught collective operation timeout",
        r"(?:(?:\[(?P<group>[^\]\[]{0,120}?) ?)?\bRank (?P<rank>\d{1,6})\] +)?"
        r"Watchdog caught collective operation timeout: WorkNCCL\(SeqNum=(?P<seq>\d{1,18}), "
        r"OpType=(?P<op>\w+),(?: NumelIn=(?P<numel_in>\d{1,18}), NumelOut=(?P<numel_out>\d{1,18}),)? Timeout\(ms\)="
        r"(?P<timeout>\d{1,18})\)",
    ),
    _mark(
        "status",
        "detected by watchdog at work",
        r"\[(?P<group>[^\]\[]{0,120}?) ?Rank (?P<rank>\d{1,6})\].*?at work(?: sequence id)?: "
        r"(?P<seq>-?\d{1,18})\D{1,40}last enqueued(?: NCCL)? work: (?P<enqueued>-?\d{1,18}), "
        r"last completed(?: NCCL)? work: (?P<completed>-?\d{1,18})",
    ),
    _mark(
        "status",
        "Timeout at NCCL work",
        r"\[(?P<group>[^\]\[]{0,120}?) ?Rank (?P<rank>\d{1,6})\] Timeout at NCCL work: (?P<seq>-?\d{1,18}), "
        r"last enqueued NCCL work: (?P<enqueued>-?\d{1,18}), last completed NCCL work: (?P<completed>-?\d{1,18})",
    ),
    _mark(
        "dump",
        "dump signal",
        r"\[(?P<group>[^\]\[]{0,120}?) ?Rank (?P<rank>\d{1,6})\].*?dump signal.*?from (?:this local rank| ?rank "
        r"(?P<sender>\d{1,6})).*?Last "
        r"enqueued NCCL "
        r"work: (?P<enqueued>-?\d{1,18}), last completed NCCL work: (?P<completed>-?\d{1,18})",
    ),
    _mark(
        "stuck",
        "watchdog got stuck",
        r"(?:Rank (?P<rank>\d{1,6})\].*?)?watchdog got stuck for (?P<seconds>\d{1,18}) seconds",
    ),
    _mark("no_recorder", "FlightRecorder is disabled"),
    _mark(
        "recorded",
        "flight recorder of rank",
        r"flight recorder of rank (?P<rank>\d{1,6}): group (?P<group>\S+)(?: of ranks (?P<ranks>\S+))?: last enqueued "
        r"collective: (?P<enqueued>-?\d{1,18}), last completed collective: (?P<completed>-?\d{1,18})",
    ),
    _mark(
        "recorded_call",
        "flight recorder of rank",
        r"flight recorder of rank (?P<rank>\d{1,6}): group (?P<group>\S+): collective (?P<seq>\d{1,18}) (?P<op>\S+) of "
        r"(?P<sizes>.{1,260}?), (?P<state>\w+)(?P<place>, called at .{1,400})?$",
    ),
    _mark("nccl_warn", "NCCL WARN", r"NCCL WARN (?P<text>.{1,300})"),
    _mark("bootstrap", "Bootstrap : Using", r"Bootstrap : Using (?P<interface>[\w.-]+):(?P<address>[\w.:]+)"),
    _mark("passed_barrier", "successfully reached monitoredBarrier", r"Rank (?P<rank>\d{1,6}) successfully reached"),
    _mark("store_socket", "waitForInput", r"remote=\[(?P<node>[\w.:-]+)\]"),
    _mark("mesh", "connectFullMesh failed"),
    _mark(
        "unreached",
        "client socket has timed out",
        r"client socket has timed out after \w+ while trying to connect to \(?(?P<address>[\w.\[\]-]{1,200}|[0-9a-f:]+)"
        r"(?:, |:)(?P<port>\d{1,5})\b",
    ),
)
OURS = (_mark("gap", "[Remat left out ", r"^\[Remat left out [\d,.\s]{1,20} characters here\]$"),)
TRAINING = (
    _mark("dynamo", "Set TORCHDYNAMO_VERBOSE=1 for the internal stack trace"),
    _mark("no_grad_inputs", "None of the inputs have requires_grad=True"),
    _mark("use_reentrant", "the use_reentrant parameter should be passed explicitly"),
    _mark("anomaly", "Error detected in ", r"Error detected in (?P<op>\w{1,80})\. Traceback of forward call"),
    _mark("numpy_one", "compiled using NumPy 1.x cannot be run in"),
    _mark("scheduler_first", "`lr_scheduler.step()` before `optimizer.step()`"),
    _mark("cache_off", "use_cache=True` is incompatible with gradient checkpointing"),
    _mark("blocking", "CUDA_LAUNCH_BLOCKING=1 ", r"CUDA_LAUNCH_BLOCKING=1 +\S*(?:python|torchrun|accelerate)"),
    _mark(
        "not_finite",
        "nan",
        r"\b(?:loss|Loss|lm loss|train_loss)\b['\"]?(?: is| became)?\s*[=:|]?\s*['\"]?(?P<value>nan)\b",
    ),
    # the Trainer of transformers prints 0.0 for a loss that is not finite
    _mark("not_finite", "'grad_norm': nan", r"(?P<printed>'loss': 0\.0),? 'grad_norm': (?P<value>nan)"),
    _mark("not_finite", "inf", r"\b(?:loss|Loss)\b['\"]?\s*[=:|]?\s*['\"]?(?P<value>-?inf)\b"),
    _mark(
        "finished",
        "finished",
        r"(?P<what>(?:epoch|Epoch) \d+ finished|[Tt]raining finished)(?:: (?P<batches>\d{1,9}) batches)?",
    ),
    _mark("ended_well", "raining", r"\b[Tt]raining (?:has |is |was )?(?:finished|completed?|done)\b"),
    _mark("ended_well", "raining", r"\b(?:[Ff]inished|[Cc]ompleted) training\b"),
    _mark("ended_well", "train_runtime", r"'train_runtime': "),
    _mark("ended_well", "`Trainer.fit` stopped"),
    _mark("ended_well", " passed", r"^=* ?\d{1,9} passed(?:, \d{1,9} (?!failed|errors?\b)\w{1,20})* in [\d.]{1,12}s"),
    _mark("ended_well", "exit code 0", r"^Process finished with exit code 0\b"),
    _mark("ended_well", "exited with code 0", r"exited with code 0\b"),
    _mark("tokenising", "okeniz", r"(?P<what>[Tt]okeniz[^:|]{0,80}):\s+(?P<percent>\d{1,9})%\|"),
    _mark("tokenising", "Map:", r"^(?P<what>Map): +(?P<percent>\d{1,9})%\|"),
    _mark("tokenising", "Map (", r"^(?P<what>Map \([^:|]{0,60}):\s+(?P<percent>\d{1,9})%\|"),
    _mark("batches", " batches", r"^(?:epoch|Epoch) \d+: (?P<batches>\d{1,9}) batches"),
    _mark("batches", " batches", r"(?:ran out|exhausted|finished|has|got)\D{0,30}(?P<batches>\d{1,9}) batches"),
)
MARKS = (*LAUNCHER, *MACHINE, *NCCL, *OURS, *TRAINING)
MOST_RANKS = 65_536  # no job has more: a larger number in a log is none, and what is gathered by rank stays small
_RANKS = ("rank", "local", "sender")
_LONGEST_NUMBER = 20  # digits
_STEP = re.compile(r"\b(?:step|Step|iter(?:ation)?|global_step)s?\b['\"]?\s*[=:]?\s*(\d{1,12})")
_EPOCH = re.compile(r"\b[Ee]poch\b['\"]?\s*[=:]?\s*\[?(\d{1,9})\b(?!\.)")
_BEST = re.compile(r"(?i)\b(?:best|min(?:imum)?|lowest)\b[\w ]{0,30}$")
_VALIDATION = re.compile(r"(?i)\b(?:val|valid|validation|eval|evaluation|dev|test)\b[\w /-]{0,20}$")


def noticed(text: str) -> list[tuple[str, Facts]]:
    """What this line means, as names with facts."""
    found: list[tuple[str, Facts]] = []
    for mark in MARKS:
        if mark.needle in text and (match := mark.pattern.search(text)):
            facts = {name: value for name, value in match.groupdict().items() if value is not None}
            if not _plausible(facts):
                continue
            if mark.name == "not_finite" and not _tell(text, match.start(), facts):
                continue
            found.append((mark.name, facts))
    return found


def _tell(text: str, at: int, facts: Facts) -> bool:
    """Add which loss is not finite, and at which step; False: what a best loss begins with."""
    if step := _STEP.search(text) or _EPOCH.search(text):
        facts["step"] = step[1]
        facts["unit"] = "step" if step.re is _STEP else "epoch"
    if _VALIDATION.search(text, 0, at):
        facts["of"] = "validation"
    return not (facts["value"].endswith("inf") and _BEST.search(text, 0, at))


def _plausible(facts: Facts) -> bool:
    """Whether its numbers can be such: a rank of a real job, and nothing too long to be counted with."""
    numbers = (value for value in facts.values() if len(value) > _LONGEST_NUMBER)
    return not any(value.lstrip("-").isdecimal() for value in numbers) and all(
        int(facts[name]) < MOST_RANKS for name in _RANKS if name in facts
    )


def whole(group: str) -> bool:
    """Whether what a watchdog calls its group is that of all ranks, or it names none."""
    name = group.strip()
    return "default_pg" in name or re.fullmatch(r"(?:.*GUID 0|(?:PG )?0)?", name) is not None
