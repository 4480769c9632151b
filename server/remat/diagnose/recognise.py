"""Which kind of failure a traceback is, and where in the user's code it happened."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from remat.diagnose.hints import hint
from remat.diagnose.report import Place
from remat.diagnose.signature import Facts, Noticed, Role, Seen, Signature
from remat.diagnose.signatures import KINDS, PATTERNS, SIGNATURES, match

if TYPE_CHECKING:
    from collections.abc import Mapping

    from remat.diagnose.tracebacks import Failure, Frame, Raised

_INSTALLED = re.compile(
    r"site-packages|dist-packages|[/\\]lib[/\\]python\d|[/\\]Python3?\d+[/\\]Lib[/\\]|^<"
    r"|[/\\](?:bin|Scripts)[/\\][\w-]+(?:\.exe)?$"
    r"|[/\\]lib[/\\]python3[/\\]|^torch[/\\]|importlib"
    # libraries that are used from their own repositories
    r"|[/\\]torch[/\\](?:_\w+\.py$|_(?:dynamo|inductor|functorch|subclasses)[/\\]|autograd[/\\]|serialization\.py$"
    r"|nn[/\\](?:functional\.py$|modules[/\\]|parallel[/\\])|optim[/\\]|cuda[/\\]"
    r"|utils[/\\](?:checkpoint|_\w+)\.py$|utils[/\\]data[/\\](?:dataloader\.py|_utils[/\\])"
    r"|distributed[/\\](?:distributed_c10d|utils|run|rendezvous)\.py$|distributed[/\\](?:fsdp|tensor|elastic)[/\\])"
    r"|[/\\](transformers|accelerate|peft|diffusers)[/\\]src[/\\]\1[/\\]|[/\\]DeepSpeed[/\\]deepspeed[/\\]",
    re.IGNORECASE,
)
_CHECK = re.compile(r"(?:^|\.)(?:__init__|__post_init__|_?validate\w*|_check\w*|__new__|from_dict)$")
_CONSTRUCTOR = re.compile(r"(?:^|\.)(?:__init__|__post_init__|_?validate\w*|__new__|from_dict)$")
_KEYWORD = "Unexpected keyword arguments: "
_LAUNCHERS = {"ChildFailedError", "SignalException", "ProcessExitedException", "CalledProcessError", "SystemExit"}
_LAUNCHERS |= {"WorkerCrashedError"}
_ENDED = re.compile(  # mp.spawn raised a plain Exception before torch 1.7
    r"process \d{1,6} terminated with (?:signal|exit code)\b|The actor died unexpectedly before finishing this task"
)


@dataclass(frozen=True, slots=True)
class Found:
    """A recognised failure: its kind, its facts, who had it, and the lines that prove it."""

    signature: Signature
    facts: Facts
    rank: int | None
    lines: tuple[int, ...]
    said: str  # the exception as the log prints it
    place: Place | None = None
    time: str = ""
    host: str = ""
    truncated: bool = False
    logged: bool = False

    @property
    def waiting(self) -> bool:
        return self.signature.role is Role.WAITING

    @property
    def weight(self) -> int:
        return self.signature.weight


def recognise(failure: Failure, notices: Mapping[str, tuple[Noticed, ...]]) -> Found:
    """Name the kind; where nothing is known the exception is quoted and no more."""
    frames = "\n".join(f"{frame.path}:{frame.function}" for raised in failure.chain for frame in raised.frames)
    texts = [raised.text for raised in failure.chain]
    found = _best(failure, texts, frames, notices)
    if found is None and any("\n" in text for text in texts):  # wrapped where a text that is looked for goes on
        found = _best(failure, [" ".join(text.split()) for text in texts], frames, notices)
    if found is None:
        raised = failure.chain[-1]
        signature, facts = _unknown(failure, raised)
    else:
        signature, facts, raised = found
    inner = failure.chain[-1]
    place = None if signature.asynchronous and "blocking" not in notices else _place(failure, raised, signature)
    if signature.id in {"data.worker_exception", "data.map_worker_exception", "data.dataset_generation"}:
        begun = failure.chain[0] if signature.id == "data.dataset_generation" else inner  # the rest only wraps it
        inside = raised if signature.id == "data.map_worker_exception" else begun
        facts = {**facts, "inner": first_line(inside.text).rstrip('"')}
    said = first_line(inner.text if signature.weight == 0 else raised.text)
    proof = tuple(dict.fromkeys((*((frame.at,) if (frame := user_frame(raised)) else ()), raised.at)))
    return Found(
        signature,
        facts,
        failure.rank,
        proof,
        said,
        place,
        failure.time,
        failure.host,
        failure.truncated,
        failure.logged,
    )


def _best(
    failure: Failure, texts: list[str], frames: str, notices: Mapping[str, tuple[Noticed, ...]]
) -> tuple[Signature, Facts, Raised] | None:
    """The kind that says most of the exceptions whose texts these are; of equals the last, but not the same again."""
    found: tuple[tuple[int, int, int], Signature, Facts, Raised] | None = None
    for at, (raised, text) in enumerate(zip(failure.chain, texts, strict=True)):
        for signature, facts in _kinds(text, frames, notices):
            key = signature.weight, int(signature.role is Role.INITIATING), at
            again = found is not None and found[1] is signature  # the same once more, on the way out
            if found is None or (key > found[0] and not again):
                found = key, signature, facts, raised
    return found[1:] if found is not None else None


def _kinds(text: str, frames: str, notices: Mapping[str, tuple[Noticed, ...]]) -> list[tuple[Signature, Facts]]:
    found = []
    for signature in SIGNATURES:
        if not signature.words:
            continue
        facts = match(signature, text)
        if facts is None or (signature.frames and not re.search(signature.frames, frames)):
            continue
        told = signature.read(Seen(facts, text, frames, notices))
        if told is not None:
            found.append((signature, told))
    return found


def _unknown(failure: Failure, raised: Raised) -> tuple[Signature, Facts]:
    message = first_line(raised.message) or raised.type
    last = raised.frames[-1] if raised.frames else None
    kind = raised.type.rpartition(".")[2]
    if (
        last is not None
        and _INSTALLED.search(last.path)
        and _constructing(raised)
        and kind in {"ValueError", "AssertionError"}
    ):
        caller = user_frame(raised)
        shown = f" (`{caller.source}`)" if caller is not None and caller.source else ""
        values = f" {numbers}" if (numbers := _values(failure)) else ""
        return KINDS["config.value"], {"message": f"{message}{shown}{values}"}
    frame = user_frame(raised)
    where = f" at {_name(frame.path)}:{frame.line}" if frame else ""
    source = f" (`{frame.source}`)" if frame and frame.source else ""
    below = last is not None and frame is not None and frame is not last
    inside = f" in {_name(last.path)}, called from{where[3:]}" if last is not None and below else where
    facts = {"kind": kind, "message": message, "where": inside + source, "what": _name(frame.path) if frame else "it"}
    if _KEYWORD in message and last is not None and re.search(r"utils[/\\]checkpoint\.py$", last.path):
        remedy = f"Pass use_reentrant=False{where + source}: reentrant checkpointing passes no keyword arguments on."
        return replace(KINDS["code.user_exception"], rules=("keyword-to-reentrant-checkpoint",)), {
            **facts,
            "hint": remedy,
        }
    return KINDS["code.user_exception"], {**facts, "hint": hint(kind, message, where + source)}


def _constructing(raised: Raised) -> bool:
    """Whether a library's constructor, or a check that it calls, refused its arguments."""
    return _CHECK.search(raised.frames[-1].function) is not None and any(
        _CONSTRUCTOR.search(frame.function) for frame in raised.frames[-6:] if _INSTALLED.search(frame.path)
    )


def _values(failure: Failure) -> str:
    """The user's own lines on the way to the refusal: they hold the values."""
    lines = [f.source for raised in failure.chain for f in raised.frames if not _INSTALLED.search(f.path) and f.source]
    return f"[called as: {'; '.join(lines[:2])}]" if len(lines) > 1 else ""


def _place(failure: Failure, raised: Raised, signature: Signature) -> Place | None:
    order = [raised, *reversed(failure.chain)]
    if signature.id in {"data.worker_exception", "code.user_exception"}:
        order = [*reversed(failure.chain)]
    for one in order:
        if (frame := user_frame(one)) is not None:
            return Place(frame.path, frame.line)
    return None


def user_frame(raised: Raised) -> Frame | None:
    """The innermost frame that is not a library's; a crash dump lists the innermost first."""
    frames = raised.frames if raised.type == "Fatal Python error" else tuple(reversed(raised.frames))
    return next((frame for frame in frames if not _INSTALLED.search(frame.path)), None)


def first_line(text: str) -> str:
    """The first line that says something, cut to what fits a sentence."""
    line = next((line.strip() for line in text.split("\n") if line.strip()), "")
    head, _, rest = line.partition(": ")
    if rest == "" and "\n" in text and head.endswith(":"):
        line = " ".join(text.split())
    return line if len(line) <= 300 else line[:297] + "..."


def _name(path: str) -> str:
    return re.split(r"[/\\]", path)[-1]


def of_launcher(failure: Failure) -> bool:
    """Whether this only says that another process ended."""
    last = failure.chain[-1]
    return last.type.rpartition(".")[2] in _LAUNCHERS or _ENDED.match(last.message) is not None


def known(identity: str) -> Signature:
    return KINDS[identity]


__all__ = ["PATTERNS", "Found", "first_line", "known", "of_launcher", "recognise", "user_frame"]
