"""One pass over a log: its runs, and in each the failures and notices of every rank, in bounded memory."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING

from remat.diagnose.clocks import NATIVE
from remat.diagnose.log import numbered, pieces
from remat.diagnose.notices import MARKS, noticed
from remat.diagnose.prefixes import Prefixes, Said
from remat.diagnose.signature import Noticed
from remat.diagnose.signatures import BARE_WORDS, bare
from remat.diagnose.tracebacks import Reader

if TYPE_CHECKING:
    from collections.abc import Iterable

    from remat.diagnose.tracebacks import Failure

_PROMPT = re.compile(
    r"^(?:\([\w.-]+\) ?)?(?:[\w.-]+@[\w.-]+[:~][^$#]{0,120})?[$#] (?:[A-Z_]+=\S+ )*"
    r"(?:\S*/)?(?:python[\d.]*|torchrun|accelerate|deepspeed|srun|sbatch|pytest|bash|sh|make|uv|poetry)\b"
    r"(?P<command>.*)"
)
_PROGRESS = re.compile(
    r"\b(?i:step|epoch|iter|iteration|loss|attempt|retry|retrying|resumed?|recovered|fetched|saved|finished"
    r"|(?<!to )completed?|done)\b"
    r"|\bINFO\b"
)
_GOING_DOWN = re.compile(
    r"(?i)\b(?:exit|abort|kill|terminat|shut|fail|error|crash|stopp|stopping|clean|launch\.py|elastic|exception)"
    r"|\bwandb:|^srun:|^slurmstepd:"
)  # lines of a run that ends are no proof that it went on
_WORDS = tuple(dict.fromkeys((*(mark.needle for mark in MARKS), *BARE_WORDS)))
_LIST = {"others", "root", "entry_rank"}  # what begins or continues a launcher's list of failures
_IN_LISTS = {mark.needle for mark in MARKS if mark.name.startswith("entry_")}
_SHARED = ("ignal", "exitcode", "erminate", "atchdog", "Kill", "failed", "CUDA capab", "loss scale", "Bus error")
_WANTED = (
    "Traceback",
    "Error",
    "Fatal Python",
    "xception",
    "nterrupt",
    "$ ",
    "# ",
    *_SHARED,
    *sorted(set(_WORDS) - _IN_LISTS),
)
_NEEDLES = tuple(one for one in _WANTED if not any(other in one for other in _WANTED if other != one))
_BARE = re.compile("|".join(map(re.escape, BARE_WORDS)))
_RANK = re.compile(r"\[(?:[Rr]ank[ :=]?|default)(\d{1,6})\]")
_STARTS = ("[rank", "[rank ", "[rank:", "[default", "[Rank ", "[Rank", "[Rank:")
_MOST_NOTICES = 64  # of one name from one rank, in a run
_MOST_FAILURES = 24  # of one process
_JUST_BEFORE = 2  # lines between a logger's message and the traceback that belongs to it
_IDLE = 400  # physical lines after which a traceback is not continued
_BLOCK = 64  # lines that are searched for needles at once
_ALWAYS = 1024  # the first lines are all read: a head that was cut off has no needle
_LISTEN = 200  # lines that an entry of a launcher's list may have


@dataclass(slots=True)
class Run:
    """What one command printed. `ranks`: a line at or after the last of each rank that said something."""

    readers: dict[tuple[str, int | None, bool], Reader] = field(default_factory=dict)
    notices: dict[str, list[Noticed]] = field(default_factory=dict)
    ranks: dict[int, int] = field(default_factory=dict)
    recovered: list[Failure] = field(default_factory=list)
    recovered_count: int = 0
    beginning: str = ""  # the first line that says something, of a text that no command line begins
    unfinished: frozenset[int] = frozenset()  # ranks in the middle of a traceback where the text ends
    broken_off: tuple[int, ...] = ()  # the last lines of tracebacks that the text ends in
    went_on: int = 0  # the last line that shows the run going on after what it recovered from
    entry_failures: list[Failure] = field(default_factory=list)
    first: int = 1
    last: int = 0
    command: str = ""
    counts: dict[tuple[str, int | None], int] = field(default_factory=dict)

    def notice(self, name: str, said: Said, number: int, facts: dict[str, str]) -> None:
        rank = int(facts["rank"]) if "rank" in facts else said.rank
        key = name, rank
        self.counts[key] = self.counts.get(key, 0) + 1
        if self.counts[key] <= _MOST_NOTICES:
            kept = self.notices.setdefault(name, [])
            kept.append(Noticed(name, rank, said.host, number, facts, said.time))

    @property
    def failures(self) -> list[Failure]:
        every = [failure for reader in self.readers.values() for failure in reader.failures]
        return sorted(every, key=lambda failure: failure.first)


@dataclass(slots=True)
class Recorder:
    """Feeds lines to the readers of the current run."""

    prefixes: Prefixes = field(default_factory=Prefixes)
    runs: list[Run] = field(default_factory=lambda: [Run()])
    dropped: int = 0
    watched: frozenset[int | None] = frozenset()  # ranks in a traceback, or with one that may be recovered from
    entry: Reader | None = None  # the torchelastic entry whose copied traceback is being read
    entry_rank: int | None = None
    opened: bool = False  # a traceback was read since the last look at who is watched
    listening: int = 0  # until this line a launcher's list may go on
    clocks: dict[int | None, tuple[int, str]] = field(default_factory=dict)  # of each rank: last stamped line, its time
    entry_time: str = ""
    skipped: str = ""  # the dull line just before: it may be the tail of a traceback that is cut off

    def block(self, lines: list[tuple[int, str]]) -> None:
        """Read some logical lines. Most of a long log says nothing: that is only looked at for its ranks."""
        first, last = lines[0][0], lines[-1][0]
        text = "\n".join([line for _, line in lines])
        self.runs[-1].ranks.update(dict.fromkeys(map(int, {*_RANK.findall(text)}), last))
        if first <= _ALWAYS or last <= self.listening:
            for number, line in lines:
                self._line(number, line)
        else:
            self._sift(lines, [needle for needle in _NEEDLES if needle in text])
        self.runs[-1].last = last
        if self.watched or self.opened:
            self._age(last)

    def _sift(self, lines: list[tuple[int, str]], needles: list[str]) -> None:
        """Read the lines that hold a needle, or belong to a rank in the middle of a traceback."""
        watching, wanted = self.watched, [*needles, *self._watched_needles()]
        for number, line in lines:
            if self.watched is not watching:
                watching, wanted = self.watched, [*needles, *self._watched_needles()]
            for needle in wanted:
                if needle in line:
                    self._line(number, line)
                    break
            else:
                if number <= self.listening:
                    self._line(number, line)
                else:
                    self.skipped = line

    def _watched_needles(self) -> list[str]:
        """What every line of a watched rank holds; any line does, where a rank is not to be seen in it."""
        if self.watched and (None in self.watched or self.prefixes.any_learnt):
            return [""]
        return [f"{start}{rank}]" for rank in self.watched for start in _STARTS]

    def _line(self, number: int, line: str) -> None:
        before, self.skipped = self.skipped, ""
        if before and "Traceback" not in line:
            for piece in pieces(before):
                self._piece(number - 1, self.prefixes.split(piece))
        for piece in pieces(line):
            self._piece(number, self.prefixes.split(piece))

    def _age(self, number: int) -> None:
        """End the tracebacks that nobody continues."""
        run, self.opened = self.runs[-1], False
        for reader in run.readers.values():
            if reader.style and reader.fed < number - _IDLE:
                reader.close()
        watched = frozenset(r.rank for r in run.readers.values() if r.style or r.failures)
        self.watched = watched if watched != self.watched else self.watched

    def _piece(self, number: int, said: Said) -> None:
        prompt = _PROMPT.match(said.text) if "$ " in said.text or "# " in said.text else None
        if prompt is not None:
            self._new_run(number, said.text)
        run = self.runs[-1]
        run.beginning = run.beginning or run.command or said.text.rstrip()
        if said.rank is not None:
            run.ranks[said.rank] = number
        key = said.host, said.rank, said.logged
        reader = run.readers.get(key)
        if reader is None:
            reader = run.readers[key] = Reader(said.rank, said.host, said.logged)
        if self.entry is not None and self._in_entry(said, number):
            return
        if "traceback : Traceback" in said.text:  # a launcher's entry, which is no traceback of this process
            self._notices(run, said, number, in_traceback=False)
            return
        consumed = reader.feed(said.text, number, self._time(said, number))
        ready = (reader.failures or run.recovered) and prompt is None and not reader.style and not consumed
        if ready and _goes_on(said.text):
            self._recovered(run, reader)
            run.went_on = number
        if len(reader.failures) > _MOST_FAILURES:
            del reader.failures[1]
        self.opened = self.opened or bool(reader.style)
        if (reader.style or reader.failures) and reader.rank not in self.watched:
            self.watched = self.watched | {reader.rank}
        if not (consumed and reader.style == "python"):  # a frame or its source means nothing else
            self._notices(run, said, number, in_traceback=consumed)

    def _time(self, said: Said, number: int) -> str:
        """The time before this line, or before the line just above that its rank logged."""
        if said.time or said.rank is None:
            self.clocks[said.rank] = (number, said.time)
            return said.time
        at, time = self.clocks.get(said.rank, (0, ""))
        return time if number - at <= _JUST_BEFORE else ""

    def _notices(self, run: Run, said: Said, number: int, *, in_traceback: bool) -> None:
        for name, facts in noticed(said.text):
            if name == "failed":
                facts["agent"] = said.process
            if name in {"failed", "restart"}:
                for reader in run.readers.values():
                    if reader.style == "message" and (reader.rank is None or name == "restart"):
                        reader.close()  # its process has ended: what follows is another's
            run.notice(name, said, number, facts)
            if name in _LIST:
                self.listening = number + _LISTEN
            if name == "entry_rank":
                self.entry_rank = int(facts["rank"])
            elif name == "entry_time":
                self.entry_time = facts["time"]
            elif name == "entry_text" and "Traceback" in facts["text"]:
                self.entry = Reader(self.entry_rank, said.host)
                self.entry.feed(facts["text"], number, self.entry_time)
        if not in_traceback and _BARE.search(said.text):
            for identity, facts in bare(said.text):
                native = NATIVE.search(said.text)
                timed = replace(said, time=said.time or (native["time"] if native else ""))
                run.notice(f"bare:{identity}", timed, number, facts)

    def _in_entry(self, said: Said, number: int) -> bool:
        """Read a traceback that the launcher copied into its list of failures."""
        entry = self.entry
        if entry is None:
            return False
        if said.text.startswith("  ") or not said.text.strip():
            entry.feed(said.text[2:], number, said.time)
            return True
        entry.close()
        self.runs[-1].entry_failures += entry.failures
        self.entry = None
        return False

    def _recovered(self, run: Run, reader: Reader) -> None:
        run.recovered_count += len(reader.failures)
        run.recovered = [*run.recovered, *reader.failures][-8:]
        reader.failures.clear()
        self.watched = self.watched - {reader.rank}  # another reader of this rank is watched again after this block

    def _new_run(self, number: int, command: str) -> None:
        self.close()
        if len(self.runs) > 2:
            del self.runs[0]
            self.dropped += 1
        self.runs.append(Run(first=number, command=command))
        self.watched = frozenset()

    def close(self) -> None:
        run = self.runs[-1]
        opened = [r for r in run.readers.values() if r.style and r.style != "message"]
        run.unfinished = frozenset(r.rank for r in opened if r.rank is not None)
        run.broken_off = tuple(sorted(r.fed for r in opened if r.headed))
        for reader in run.readers.values():
            reader.close()
        if self.entry is not None:
            self.entry.close()
            run.entry_failures += self.entry.failures
            self.entry = None


def _goes_on(text: str) -> bool:
    return _PROGRESS.search(text) is not None and _GOING_DOWN.search(text) is None


def read(log: str | Iterable[str]) -> Recorder:
    """Read a log to its end."""
    recorder = Recorder()
    lines, ahead = numbered(log)
    recorder.prefixes.learn([piece for line in ahead for piece in pieces(line)])
    while block := list(islice(lines, _BLOCK)):
        recorder.block(block)
    recorder.close()
    return recorder
