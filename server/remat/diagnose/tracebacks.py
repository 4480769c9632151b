"""Tracebacks as data: plain, chained, grouped, from workers, from notebooks, drawn by rich, cut off at the top."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

_HEADER = re.compile(
    r"Traceback \((?:most recent call last|most recent call first)\)(?:: \(RANK (?P<origin>\d{1,6})\))?"
)
_FRAME = re.compile(
    r'^[\s|]*File "(?P<path>[^"]{1,1000})", line (?P<line>\d{1,9})(?:, in |  ?in )?(?P<function>.{0,200})$'
)
_CELL = re.compile(r"^(?:Cell |Input )?In ?\[\d+\], (?:line (?P<line>\d{1,9})|in (?P<function>.{1,200}))")
_NOTEBOOK = re.compile(r"^File (?P<path>[^\s].{0,800}?):(?P<line>\d{1,9})(?:, in (?P<function>[\w.<>]+).*)?$")
_RICH = re.compile(
    r"^(?P<path>(?:/|[A-Za-z]:\\|\./|~)[^\s:][^:]{0,600}):(?P<line>\d{1,9})(?:\s+in "
    r"(?P<function>\S+))?\s*$"
)
_EXCEPTION = re.compile(
    r"^(?P<type>(?:[A-Za-z_]\w*\.){0,12}[A-Z_]\w*)(?::(?: (?P<message>.*))?|\s*)$|^"
    r"(?P<low>(?:[a-z_]\w*\.){0,12}[a-z]\w*(?:error|exit|interrupt)): (?P<said>.*)$"
)
_ENDING = re.compile(
    r"(?:Error|Exception|Interrupt|Exit|Warning|Failure|Unsupported|Group|Iteration|Timeout|Refused|Miss)$"
)
_PYTEST = re.compile(r"^(?P<path>[^\s:][^:\n]{0,300}\.py):(?P<line>\d{1,9}):(?: in (?P<function>\S+))?\s*$")
_MARGIN = re.compile(r"^\s*(?:[|+][-+| ]{0,8})+(?:-+ \d+ -+)?")
_LINKS = (
    "The above exception was the direct cause of the following exception",
    "During handling of the above exception, another exception occurred",
    "The following exception was the direct cause",
)
_STOP = re.compile(
    r"^(?:\[(?!/[^\]\s]{1,200}\.(?:cc|cpp|cu|h):\d+\])[^\]]{0,80}\]"  # not where C++ code raised what the message holds
    r"|[EWIF]\d{4} |srun: |slurmstepd: |wandb: |={8}|-{20}|\$ |[\w.@~:/() -]{0,60}\$ |step\b"
    r"|epoch\b|Epoch\b|iteration\b|INFO\b|WARNING\b|DEBUG\b|terminate called|Exception ignored|.{0,60}\d+%\|)"
)
# `Error: 0.03` and `Timeout: 30` are lines of a table, `ValueError: …` is not.
_NAMED = re.compile(rf"^[\w.]*[a-z0-9.]{_ENDING.pattern.removesuffix('$')}(?::\s|$)")
_UNHEADED = re.compile(r"^(?:(?:[A-Za-z_]\w*\.){1,12}\w*|\w+)(?:Error|Exception|Unsupported|Interrupt)(?::\s|$)")
_ARROW = re.compile(r"^-+> (?:\[?\d+\]?(?:\([^)]{0,400}\))?)?(?P<source>.*)")
_PRINTED = re.compile(r"^[A-Z]{3,4} out of memory\. Tried to allocate ")  # by a program that caught the exception
_LONGEST_MESSAGE, _MOST_FRAMES = 60, 200


@dataclass(frozen=True, slots=True)
class Frame:
    path: str
    line: int
    function: str
    at: int  # the line of the log
    source: str = ""


@dataclass(frozen=True, slots=True)
class Raised:
    """One exception: what was raised, the frames outermost first, and the lines of the log from `first` to `at`."""

    type: str
    message: str
    frames: tuple[Frame, ...]
    first: int
    at: int

    @property
    def text(self) -> str:
        return f"{self.type}: {self.message}" if self.message and self.type else self.message or self.type


@dataclass(frozen=True, slots=True)
class Failure:
    """Exceptions printed together, in the order they were printed. `truncated`: the frames above are cut off."""

    chain: tuple[Raised, ...]
    rank: int | None
    host: str = ""
    time: str = ""
    logged: bool = False
    truncated: bool = False
    origins: tuple[int, ...] = ()  # ranks that a distributed checkpoint's dump says these exceptions are of

    @property
    def first(self) -> int:
        return self.chain[0].first

    @property
    def at(self) -> int:
        return self.chain[-1].at


@dataclass(slots=True)
class Reader:
    """Reads one process's lines; `failures` grows."""

    rank: int | None = None
    host: str = ""
    logged: bool = False
    failures: list[Failure] = field(default_factory=list)
    fed: int = 0  # the last line that was read while in a traceback
    headed: bool = False  # the traceback that is being read began with its header
    style: str = ""  # "" outside a traceback; python, notebook, rich, message
    _frames: list[Frame] = field(default_factory=list)
    _tested: list[Frame] = field(default_factory=list)  # frames that pytest shows before it says what was raised
    _sources: list[str] = field(default_factory=list)
    _first: int = 0
    _time: str = ""
    _link: bool = False
    _gap: bool = False  # lines are left out just above: what is raised next may have lost its frames
    _ignored: bool = False
    _origin: int | None = None
    _raised: Raised | None = None
    _more: list[str] = field(default_factory=list)
    _outside: str = ""  # the line before, where it may be the tail of a traceback whose head is cut off
    _strange: int = 0

    def feed(self, text: str, number: int, time: str = "") -> bool:
        """Read one line; True: it belongs to a traceback."""
        if "Traceback (most recent" in text and (header := _HEADER.search(text)):
            self.fed = number
            self._open(text[: header.start()], number, time, header["origin"])
            return True
        self.fed = number
        if not self.style:
            return self._outside_of_one(text, number, time)
        if self.style == "message":
            return self._continue_message(text, number, time)
        return self._in_rich(text, number) if self.style == "rich" else self._in_frames(text, number)

    def interrupted(self) -> None:
        """Lines are left out here: what was read before them does not belong to what comes behind."""
        self.close()
        self._frames, self._tested, self._sources, self._outside = [], [], [], " "
        self._link, self._gap, self.headed = False, True, False

    def _open(self, left: str, number: int, time: str, origin: str | None) -> None:
        linked = self._link or origin is not None or "Original " in left or left.lstrip()[:1] in {"|", "+"}
        self.close()
        self._link = linked and bool(self.failures)
        self._origin = int(origin) if origin is not None else None
        self._gap, self._ignored = False, self._outside.startswith("Exception ignored")
        self._frames, self._sources, self.headed = [], [], not self._ignored
        self._first, self._time, self._strange = number, time, 0
        notebook = re.match(r"^[A-Za-z_][\w.]*\s{2,}$", left)
        self.style = "rich" if "\u256d" in left or "\u250c" in left else "notebook" if notebook else "python"

    def _in_frames(self, text: str, number: int) -> bool:
        if (frame := _FRAME.match(text)) or (self.style == "notebook" and (frame := _NOTEBOOK.match(text))):
            if len(self._frames) < _MOST_FRAMES:
                path, function = frame["path"], (frame["function"] or "").strip()
                self._frames.append(Frame(path, int(frame["line"]), function, number))
                self._sources.append("")
            return True
        if self.style == "notebook" and _CELL.match(text):
            return True
        body = _MARGIN.sub("", text, count=1) if text.lstrip().startswith(("|", "+")) else text
        if body[:1] not in {" ", "\t", ""} and (raised := _exception(body)):
            self._raise(raised, number)
            return True
        if body[:1] not in {" ", "\t", "", "^", "-", ">"} and self.style == "python":
            self._strange += 1
            if self._strange > 20:
                self.style = ""
            return False
        if self.style == "notebook":  # of the lines that it shows around a frame's, an arrow marks that
            body = arrow["source"] if (arrow := _ARROW.match(body)) else ""
        if self._frames and not self._sources[-1] and (source := body.strip()) and source[0] not in "^~-":
            self._sources[-1] = source[:200]
        return True

    def _in_rich(self, text: str, number: int) -> bool:
        inner = text.partition("\u2502")[2].rpartition("\u2502")[0].strip()
        if "\u2570" in text or "\u2514" in text:
            self._strange = 1
            return True
        if self._strange:
            if raised := _exception(text.strip()):
                self._raise(raised, number)
            return True
        if frame := _RICH.match(inner):
            self._frames.append(Frame(frame["path"].strip(), int(frame["line"]), frame["function"] or "", number))
        return True

    def _raise(self, raised: tuple[str, str], number: int) -> None:
        sources = [*self._sources, *[""] * len(self._frames)]
        frames = tuple(
            replace(frame, source=source) if source else frame
            for frame, source in zip(self._frames, sources, strict=False)
        )
        self._raised = Raised(raised[0], raised[1], _outermost_first(frames), self._first, number)
        self._frames, self._sources, self._more, self.style = [], [], [], "message"

    def _continue_message(self, text: str, number: int, time: str) -> bool:
        if text.startswith(_LINKS) or any(link in text[:90] for link in _LINKS) or text.startswith("-- Process "):
            self.close()
            self._link = True
            return True
        if text.startswith("from user code:"):
            self._more.append(text)
            return True
        if (frame := _FRAME.match(text)) and self._raised and len(self._more) < _LONGEST_MESSAGE:
            crashed = self._raised.type == "Fatal Python error"
            if crashed or any(line.startswith("from user code") for line in self._more):
                inner = Frame(frame["path"], int(frame["line"]), frame["function"], number)
                self._raised = replace(self._raised, frames=(*self._raised.frames, inner))
            return True
        if _STOP.match(text) or len(self._more) >= _LONGEST_MESSAGE:
            self.close()
            return self._outside_of_one(text, number, time)
        self._more.append(text)
        return True

    def _outside_of_one(self, text: str, number: int, time: str) -> bool:
        before, self._outside = self._outside, text
        if text.startswith(_LINKS):
            self._link = True
            return True
        if text.startswith("-- Process "):
            self._link = bool(self.failures)
            return True
        if text.startswith("Fatal Python error: "):
            self._first, self._time, self._frames = number, time, []
            self._raise(("Fatal Python error", text.partition(": ")[2]), number)
            return True
        if _FRAME.match(text) and not self._frames:
            self._frames, self._sources, self.headed = [], [], False
            self._first, self._time, self._strange = number, time, 0
            self._link = self._ignored = False
            self.style = "python"
            return self._in_frames(text, number)
        if self._of_pytest(text, number, time):
            return True
        if _PRINTED.match(text):
            self._first, self._time, self._ignored = number, time, False
            self._raise(("", text), number)
            self.close()
            return True
        cut_off = _UNHEADED.match(text) or (before[:1] in {" ", "\t", "^"} and _NAMED.match(text))
        if cut_off and text[:1].strip() and "Warning: " not in text and (raised := _exception(text)):
            self._first, self._time, self._ignored = number, time, False
            self._raise(raised, number)
            return True
        return False

    def _of_pytest(self, text: str, number: int, time: str) -> bool:
        if text.startswith("E  ") and (raised := _exception(text[1:].strip())):
            self._first, self._time, self._ignored = number, time, False
            self._frames, self._tested, self._sources = self._tested, [], []
            self._raise(raised, number)
            return True
        if (at := _PYTEST.match(text)) is not None:
            frame = Frame(at["path"], int(at["line"]), at["function"] or "", number)
            self._tested = [*self._tested[-50:], frame]
        return at is not None

    def close(self) -> None:
        """End what is being read: a message whose last line has come."""
        raised, self._raised, self.style = self._raised, None, ""
        if raised is None:
            self._more = []
            return
        message = "\n".join([raised.message, *self._more]).rstrip() if self._more else raised.message
        self._more = []
        raised = replace(raised, message=message[:12_000])
        if self._ignored:
            self._link = False
            return
        if self._link and self.failures:
            last = self.failures.pop()
            if len(last.chain) < 12:
                last = replace(last, chain=(*last.chain, raised))
            if self._origin is not None:
                last = replace(last, origins=(*last.origins, self._origin))
            self.failures.append(last)
        else:
            cut = (self._gap or not raised.frames) and raised.type != "Fatal Python error"
            self.failures.append(
                Failure((raised,), self.rank, self.host, self._time, logged=self.logged, truncated=cut)
            )
        self._link, self._origin, self._gap = False, None, False


def _outermost_first(frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """A debugger's panel shows the innermost frame first: there the last one calls the one above it."""
    if len(frames) > 1 and frames[-1].function == "<module>" and f"{frames[-2].function}(" in frames[-1].source:
        return frames[::-1]
    return frames


def _exception(text: str) -> tuple[str, str] | None:
    """The type and message of an exception's line, if it is one."""
    match = _EXCEPTION.match(text)
    if match is None:
        return None
    if match["low"]:
        return match["low"], match["said"]
    kind, message = match["type"], match["message"] or ""
    if _ENDING.search(kind) or "." in kind or text.startswith(f"{kind}: "):
        return kind, message
    return None
