"""One pass over a log: its runs, and in each the failures and notices of every rank, in bounded memory."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING

from remat.diagnose.clocks import NATIVE
from remat.diagnose.log import numbered, pieces
from remat.diagnose.notices import noticed, whole
from remat.diagnose.prefixes import Prefixes, Said
from remat.diagnose.sieve import Sieve
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
_LIST = {"others", "root", "entry_rank"}  # what begins or continues a launcher's list of failures
_BARE = re.compile("|".join(map(re.escape, BARE_WORDS)))
_CLOCK = re.compile(r"\d\d:\d\d:\d\d[.,]\d")
_RANK = re.compile(r"\[(?:[Rr]ank[ :=]?|default)(\d{1,6})\]")
_MOST_NOTICES = 64  # of one name from one rank, in a run
_MOST_FAILURES = 24  # of one process
_JUST_BEFORE = 2  # lines between a logger's message and the traceback that belongs to it
_IDLE = 400  # physical lines after which a traceback is not continued
_CHUNK = 2048  # lines that are searched at once for what can mean something
_BLOCK = 64  # lines after which tracebacks that nobody continues are ended
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
    restarted: int = 0  # the line of the last restart: no process recovers from what ended one before it
    went_on: int = 0  # the last line that shows the run going on after what it recovered from
    entry_failures: list[Failure] = field(default_factory=list)
    first: int = 1
    last: int = 0
    command: str = ""
    counts: dict[tuple[str, int | None], int] = field(default_factory=dict)

    def notice(self, name: str, said: Said, number: int, facts: dict[str, str]) -> None:
        rank = int(facts["rank"]) if "rank" in facts else said.rank
        if said.rank is not None and "group" in facts and not whole(facts["group"]):
            rank = said.rank  # a smaller group counts its own ranks from 0
        key = name, rank
        self.counts[key] = self.counts.get(key, 0) + 1
        if self.counts[key] <= _MOST_NOTICES:
            kept = self.notices.setdefault(name, [])
            kept.append(Noticed(name, rank, said.host, number, facts, said.time))

    def ended(self, number: int, *, all_of_them: bool) -> None:
        """A process has ended, or all have and others are started: what follows is not theirs."""
        for reader in self.readers.values():
            if reader.style == "message" and (reader.rank is None or all_of_them):
                reader.close()
        if all_of_them:
            self.restarted = number

    @property
    def failures(self) -> list[Failure]:
        every = [failure for reader in self.readers.values() for failure in reader.failures]
        return sorted(every, key=lambda failure: failure.first)


@dataclass(slots=True)
class Recorder:
    """Feeds lines to the readers of the current run."""

    prefixes: Prefixes = field(default_factory=Prefixes)
    sieve: Sieve = field(default_factory=Sieve)
    runs: list[Run] = field(default_factory=lambda: [Run()])
    dropped: int = 0
    watched: frozenset[int | None] = frozenset()  # ranks in a traceback, or with one that may be recovered from
    entry: Reader | None = None  # the torchelastic entry whose copied traceback is being read
    entry_rank: int | None = None
    opened: bool = False  # a traceback was read since the last look at who is watched
    listening: int = 0  # until this line a launcher's list may go on
    clocks: dict[int | None, tuple[int, str]] = field(default_factory=dict)  # of each rank: last stamped line, its time
    entry_time: str = ""
    watched_texts: frozenset[str] = frozenset()  # the same as digits
    telling: bool = True  # the line at hand may hold what a notice needs
    skipped: str = ""  # the dull line just before: it may be the tail of a traceback that is cut off

    def chunk(self, lines: list[tuple[int, str]]) -> None:
        """Read some logical lines. Most of a long log says nothing: that is only looked at for its ranks."""
        told = self.sieve.found([line for _, line in lines])
        for start in range(0, len(lines), _BLOCK):
            self._block(lines[start : start + _BLOCK], {at - start for at in told if start <= at < start + _BLOCK})

    def _block(self, lines: list[tuple[int, str]], told: set[int]) -> None:
        first, last = lines[0][0], lines[-1][0]
        text = "\n".join([line for _, line in lines])
        self.runs[-1].ranks.update(dict.fromkeys(map(int, {*_RANK.findall(text)}), last))
        if first <= _ALWAYS or last <= self.listening:
            for number, line in lines:
                self._line(number, line)
        elif told or self.watched or first <= self.listening:
            self._sift(lines, told)
        else:
            self.skipped = lines[-1][1]
        self.runs[-1].last = last
        if self.watched or self.opened:
            self._age(last)

    def _sift(self, lines: list[tuple[int, str]], told: set[int]) -> None:
        """Read the lines that tell something, or belong to a rank in the middle of a traceback."""
        for at, (number, line) in enumerate(lines):
            self.telling = at in told or number <= self.listening or "\x1b" in line or line[:1] == "{"
            if self.telling or (self.watched and self._is_watched(line)):
                self._line(number, line)
            else:
                self.skipped = line
        self.telling = True

    def _is_watched(self, line: str) -> bool:
        """Whether a watched rank says this; any line may be its, where a rank is not to be seen in it."""
        if None in self.watched or self.prefixes.any_learnt:
            return True
        if line.startswith("[rank"):  # as torchrun writes it: most lines of most logs
            return line[5 : line.find("]", 5, 13)] in self.watched_texts
        said = _RANK.search(line)
        return said is not None and int(said[1]) in self.watched

    def _line(self, number: int, line: str) -> None:
        before, self.skipped = self.skipped, ""
        if before and (_CLOCK.search(before) if "Traceback" in line else "Error" in line or "xception" in line):
            for piece in pieces(before):
                said = self.prefixes.split(piece)
                if "Traceback" in line:
                    self._time(said, number - 1)
                else:
                    self._piece(number - 1, said)
        if line.startswith("[Remat left out "):  # by the terminal's reader: no traceback goes on behind it
            for reader in self.runs[-1].readers.values():
                reader.interrupted()
            self._end_entry()
        for piece in pieces(line):
            self._piece(number, self.prefixes.split(piece))

    def _end_entry(self) -> None:
        if self.entry is not None:
            self.entry.close()
            self.runs[-1].entry_failures += self.entry.failures
            self.entry = None

    def _age(self, number: int) -> None:
        """End the tracebacks that nobody continues."""
        run, self.opened = self.runs[-1], False
        for reader in run.readers.values():
            if reader.style and reader.fed < number - _IDLE:
                reader.close()
        watched = frozenset(r.rank for r in run.readers.values() if r.style or r.failures)
        self._watch(watched)

    def _watch(self, ranks: frozenset[int | None]) -> None:
        if ranks != self.watched:
            self.watched, self.watched_texts = ranks, frozenset(map(str, ranks))

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
            self._watch(self.watched | {reader.rank})
        heads = "Traceback (most" in said.text  # the end of something else may stand before it in the line
        if self.telling and (heads or not (consumed and reader.style == "python")):  # a frame means nothing else
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
                run.ended(number, all_of_them=name == "restart")
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
        self._end_entry()
        return False

    def _recovered(self, run: Run, reader: Reader) -> None:
        again = [failure for failure in reader.failures if failure.at > run.restarted]
        run.recovered_count += len(again)
        run.recovered = [*run.recovered, *again][-8:]
        reader.failures = [failure for failure in reader.failures if failure.at <= run.restarted]
        self._watch(self.watched - {reader.rank})  # another reader of this rank is watched again after this block

    def _new_run(self, number: int, command: str) -> None:
        self.close()
        if len(self.runs) > 2:
            del self.runs[0]
            self.dropped += 1
        self.runs.append(Run(first=number, command=command))
        self._watch(frozenset())

    def close(self) -> None:
        run = self.runs[-1]
        opened = [r for r in run.readers.values() if r.style and r.style != "message"]
        run.unfinished = frozenset(r.rank for r in opened if r.rank is not None)
        run.broken_off = tuple(sorted(r.fed for r in opened if r.headed))
        for reader in run.readers.values():
            reader.close()
        self._end_entry()


def _goes_on(text: str) -> bool:
    return _PROGRESS.search(text) is not None and _GOING_DOWN.search(text) is None


def read(log: str | Iterable[str]) -> Recorder:
    """Read a log to its end."""
    recorder = Recorder()
    lines, ahead = numbered(log)
    recorder.prefixes.learn([piece for line in ahead for piece in pieces(line)])
    while chunk := list(islice(lines, _CHUNK)):
        recorder.chunk(chunk)
    recorder.close()
    return recorder
