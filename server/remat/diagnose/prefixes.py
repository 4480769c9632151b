"""What was put before a line on its way here: ranks, tasks, hosts, containers, clocks."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_STAMP = re.compile(
    r"\[?(?P<time>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?)\]?(?: std(?:out|err) "
    r"[FP])?(?: |$)"
)
_COMPOSE = re.compile(r"^[\w.-]{1,200}[-_]\d{1,9} {1,80}\|(?: |$)")
_POD = re.compile(r"\[pod/[\w./-]+\] ?")
_JOURNAL = re.compile(r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d (?P<host>[\w.-]+) (?!kernel:)[\w./@-]+(?:\[\d+\])?: ?")
_RANK = re.compile(r"\s*\[(?:(?P<local>default)|[Rr]ank[ :]?)(?P<rank>\d{1,6})\](?::? |:|$)")
_RAY = re.compile(r"\((?P<host>raylet|[\w.<>:]{1,80}(?:\(\w{1,80}\))? pid=\d{1,9})(?:, ip=[\w.:]{1,60})?\)(?: |$)")
_QUOTE = re.compile(r"> (?=\S|  )")  # a mail's, an issue's
_SAID_RANK = re.compile(r"[Rr]ank ?(?P<rank>\d{1,6}): ")
_TASK = re.compile(r"^\s{0,12}(?P<rank>\d{1,6}): ?")
_HOST = re.compile(r"(?P<host>[A-Za-z][\w.-]*): ?")
_GLOG = re.compile(r"[EWIF]\d{4} \d\d:\d\d:\d\d\.\d+ (?:(?P<process>\d+) )?[\w./-]+\.py:\d+\] (?:\[[\w/]+\] )*")
_UNMISTAKABLE = ("Traceback (most recent", '  File "', "[rank", "[default", "Fatal Python error: ")
_LAUNCHER = re.compile(r"[EWI]\d{4} .{1,60}torch/distributed/(?:elastic|run)|-- Process \d+ terminated")
_NUMBERED = re.compile(r"\d$")
_HEADER = "Traceback (most recent call last"
_NO_PREFIX = re.compile(
    r"(?:Original|Remote|Group|During) $|\s{4,}|[\u2500-\u257f]|^[\s|+-]*$"
)  # what else stands there
_IN_WORDS = re.compile(r"(?P<before>(?i:\brank\b)\W{0,2})\d{1,6}")
_MOST_SHAPES = 8
_LONGEST_SHAPE = 160


@dataclass(frozen=True, slots=True)
class Said:
    """One piece of a line: who said it, when, and what. `logged`: through torch's logger, not by the interpreter."""

    text: str
    rank: int | None = None
    host: str = ""
    time: str = ""
    logged: bool = False
    process: str = ""  # the logging process's id


@dataclass(slots=True)
class Prefixes:
    """Strips prefixes; those that look like ordinary text (`3: `, `node1: `) only once the log has proved them."""

    labelled: bool = False
    nested: bool = False
    hosts: set[str] = field(default_factory=set)
    shapes: dict[str, re.Pattern[str]] = field(default_factory=dict)  # of loggers, proved by a traceback behind each
    supposed: dict[str, re.Pattern[str]] = field(default_factory=dict)

    @property
    def any_learnt(self) -> bool:
        """Whether a rank may stand in a prefix that only `split` understands."""
        return self.labelled or bool(self.hosts) or bool(self.shapes) or bool(self.supposed)

    def learn(self, lines: list[str]) -> None:
        """Look at the first lines: is each one labelled with a task, as `srun --label` does?"""
        filled = [line for line in lines if line.strip()]
        labels = [match for line in filled if (match := _TASK.match(line))]
        alike = len(filled) >= 2 and len(labels) == len(filled) and len({match["rank"] for match in labels}) == 1
        self.labelled = alike or (len(filled) >= 4 and 2 * len(labels) > len(filled))
        # A label before a launcher's own is that of the task which the launcher runs in.
        self.nested = any(
            _RANK.match(match.string, match.end()) or _LAUNCHER.match(match.string, match.end()) for match in labels
        )
        hosts = {match["host"] if (match := _HOST.match(line)) else "" for line in filled}
        if len(filled) >= 2 and len(hosts) == 1 and _NUMBERED.search(host := hosts.pop()):
            self.hosts.add(host)

    def split(self, text: str) -> Said:
        rank: int | None = None
        host, time, process, logged = "", "", "", False
        if text.startswith("[rank") and (end := text.find("]: ", 5, 12)) > 0 and text[5:end].isdecimal():
            rank, text = int(text[5:end]), text[end + 3 :]  # what the expressions below do, in no time
        for _ in range(6):  # as many layers as anyone puts on a line
            match = self._next(text)
            if match is None:
                break
            groups = match.groupdict()
            if self.nested and match.re is _TASK:
                host = f"task {groups['rank']}"
            elif "rank" in groups and (rank is None or not groups.get("local")):
                rank = int(groups["rank"])
            host = groups.get("host") or host
            time = groups.get("time") or time
            process = groups.get("process") or process
            logged = logged or match.re is _GLOG
            text = text[match.end() :]
        if _HEADER in text[:_LONGEST_SHAPE] and not text.startswith(_HEADER):
            self._suppose(text[: text.index(_HEADER)])
        return Said(text, rank, host, time, logged, process)

    def _suppose(self, before: str) -> None:
        """What stands before a traceback's header is a prefix, if its first frame comes behind the same."""
        if "] " in before:  # a logger's, with a message between it and the header
            self._suppose_this(before[: before.rindex("] ") + 2])
        self._suppose_this(before)

    def _suppose_this(self, before: str) -> None:
        if _NO_PREFIX.search(before) or len(self.supposed) >= _MOST_SHAPES:
            return
        shape = re.sub(r"\d+", r"\\d+", re.escape(before))
        if _IN_WORDS.search(before) is not None:
            shape = re.sub(r"(?i)(rank(?:\\?\W){0,4}?)\\d\+", r"\1(?P<rank>\\d{1,6})", shape, count=1)
        self.supposed[shape] = re.compile(shape)

    def _next(self, text: str) -> re.Match[str] | None:
        if not text:
            return None
        return self._usual(text) or (self._learnt(text) if self.shapes or self.supposed else None)

    def _learnt(self, text: str) -> re.Match[str] | None:
        for shape, pattern in [*self.supposed.items()]:
            if (match := pattern.match(text)) and text.startswith('  File "', match.end()):
                self.shapes[shape] = self.supposed.pop(shape)
        return next((match for pattern in self.shapes.values() if (match := pattern.match(text))), None)

    def _usual(self, text: str) -> re.Match[str] | None:
        head = text[0]
        if head.isdigit() and (match := _STAMP.match(text)):
            return match
        if head == " ":
            return self._indented(text)
        if head in "(>":
            return (_RAY if head == "(" else _QUOTE).match(text)
        if head == "[" and (match := _RANK.match(text) or _STAMP.match(text) or _POD.match(text)):
            return match
        if head in "EWIF" and (match := _GLOG.match(text)):
            return match
        if head.isalpha():
            return self._worded(text)
        return self._task(text) if head.isdigit() else None

    def _worded(self, text: str) -> re.Match[str] | None:
        if text[3:4] == " " and (match := _JOURNAL.match(text)):
            return match
        start = text[:80]
        if "|" in start and (match := _COMPOSE.match(text)):
            return match
        if text[0] in "Rr" and (match := _SAID_RANK.match(text)):
            return match
        return self._host(text) if ":" in start else None

    def _indented(self, text: str) -> re.Match[str] | None:
        start = text.lstrip(" ")[:1]
        if start == "[":
            return _RANK.match(text)
        return self._task(text) if start.isdigit() else None

    def _host(self, text: str) -> re.Match[str] | None:
        match = _HOST.match(text)
        if match is None:
            return None
        if match["host"] not in self.hosts and text.startswith(_UNMISTAKABLE, match.end()):
            self.hosts.add(match["host"])
        return match if match["host"] in self.hosts else None

    def _task(self, text: str) -> re.Match[str] | None:
        match = _TASK.match(text)
        if match is None:
            return None
        if not self.labelled and text.startswith(_UNMISTAKABLE, match.end()):
            self.labelled = True
        return match if self.labelled else None
