"""One pass over a log: its runs, and in each the failures and notices of every rank, in bounded memory."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

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
    r"\b(?:step|epoch|iter|iteration|loss|attempt|retry|retrying|resumed?|recovered|fetched|saved|finished"
    r"|completed?|done)\b|\bINFO\b",
    re.IGNORECASE,
)
_WORDS = tuple(dict.fromkeys((*(mark.needle for mark in MARKS), *BARE_WORDS)))
_NEEDLES = (
    "Traceback",
    "Error",
    "Fatal Python",
    "xception",
    "nterrupt",
    "Unsupported",
    "$ ",
    "# ",
    '  File "',
    *_WORDS,
)
_RANK = re.compile(r"\[(?:rank|default|rank )(\d{1,6})\]")
_MOST_NOTICES = 64  # of one name from one rank, in a run
_MOST_FAILURES = 24  # of one process
_IDLE = 400  # physical lines after which a traceback is not continued
_BLOCK = 2048  # lines that are searched for needles at once


@dataclass(slots=True)
class Run:
    """What one command printed. `ranks`: the first and last line of each rank that said something."""

    readers: dict[tuple[str, int | None, bool], Reader] = field(default_factory=dict)
    notices: dict[str, list[Noticed]] = field(default_factory=dict)
    ranks: dict[int, tuple[int, int]] = field(default_factory=dict)
    recovered: list[Failure] = field(default_factory=list)
    recovered_count: int = 0
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
    watched: set[int | None] = field(
        default_factory=set
    )  # ranks in a traceback, or with one that may be recovered from
    entry: Reader | None = None  # the torchelastic entry whose copied traceback is being read
    entry_rank: int | None = None
    skipped: str = ""  # the dull line just before: it may be the tail of a traceback that is cut off

    def block(self, lines: list[tuple[int, str]]) -> None:
        """Read some logical lines. Most say nothing: those are only looked at for their rank."""
        text = "\n".join([line for _, line in lines])
        needles = tuple(needle for needle in _NEEDLES if needle in text)
        for number, line in lines:
            match = _RANK.search(line, 0, 120)
            rank = int(match[1]) if match is not None else None
            if rank is not None:
                ranks = self.runs[-1].ranks
                ranks[rank] = (ranks[rank][0] if rank in ranks else number, number)
            watched = self.watched and (rank in self.watched or (rank is None and self.prefixes.any_learnt))
            if not watched:
                for needle in needles:
                    if needle in line:
                        break
                else:
                    self.skipped = line
                    continue
            self._line(number, line)
        self.runs[-1].last = lines[-1][0]
        self._age(lines[-1][0])

    def _line(self, number: int, line: str) -> None:
        before, self.skipped = self.skipped, ""
        if before:
            for piece in pieces(before):
                self._piece(number - 1, self.prefixes.split(piece))
        for piece in pieces(line):
            self._piece(number, self.prefixes.split(piece))

    def _age(self, number: int) -> None:
        """End the tracebacks that nobody continues."""
        run = self.runs[-1]
        for reader in run.readers.values():
            if reader.style and reader.fed < number - _IDLE:
                reader.close()
        self.watched = {reader.rank for reader in run.readers.values() if reader.style or reader.failures}

    def _piece(self, number: int, said: Said) -> None:
        if (prompt := _PROMPT.match(said.text)) is not None:
            self._new_run(number, said.text)
        run = self.runs[-1]
        if said.rank is not None:
            run.ranks[said.rank] = (run.ranks[said.rank][0] if said.rank in run.ranks else number, number)
        key = said.host, said.rank, said.logged
        reader = run.readers.get(key)
        if reader is None:
            reader = run.readers[key] = Reader(said.rank, said.host, said.logged)
        if self.entry is not None and self._in_entry(said, number):
            return
        consumed = reader.feed(said.text, number, said.time)
        if prompt is None and reader.failures and not reader.style and not consumed and _PROGRESS.search(said.text):
            self._recovered(run, reader)
        if len(reader.failures) > _MOST_FAILURES:
            del reader.failures[1]
        if reader.style or reader.failures:
            self.watched.add(reader.rank)
        self._notices(run, said, number, in_traceback=consumed)

    def _notices(self, run: Run, said: Said, number: int, *, in_traceback: bool) -> None:
        for name, facts in noticed(said.text):
            if name == "failed":
                facts["agent"] = said.process
            run.notice(name, said, number, facts)
            if name == "entry_rank":
                self.entry_rank = int(facts["rank"])
            elif name == "entry_text" and "Traceback" in facts["text"]:
                self.entry = Reader(self.entry_rank, said.host)
                self.entry.feed(facts["text"], number, said.time)
        if not in_traceback:
            for identity, facts in bare(said.text):
                run.notice(f"bare:{identity}", said, number, facts)

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
        self.watched = {r.rank for r in run.readers.values() if r.style or r.failures}

    def _new_run(self, number: int, command: str) -> None:
        self.close()
        if len(self.runs) > 2:
            del self.runs[0]
            self.dropped += 1
        self.runs.append(Run(first=number, command=command))
        self.watched = set()

    def close(self) -> None:
        run = self.runs[-1]
        for reader in run.readers.values():
            reader.close()
        if self.entry is not None:
            self.entry.close()
            run.entry_failures += self.entry.failures
            self.entry = None


def read(log: str | Iterable[str]) -> Recorder:
    """Read a log to its end."""
    recorder = Recorder()
    lines, ahead = numbered(log)
    recorder.prefixes.learn([piece for line in ahead for piece in pieces(line)])
    while block := list(islice(lines, _BLOCK)):
        recorder.block(block)
    recorder.close()
    return recorder
