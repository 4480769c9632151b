"""Dumps of torch's flight recorder, pickled or JSON, as the lines that a diagnosis reads."""

from __future__ import annotations

import io
import json
import pickle
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_NAME = re.compile(
    r"(?:trace_rank_|nccl_trace_|fr_trace_|comm_lib_trace_rank_)(?P<rank>\d{1,6})(?:\.(?:json|pkl|pickle))?$"
)
_LARGEST = 64 << 20  # bytes
_LAST = 6  # collectives of a group that are told, and those that are not complete
_MOST = 40
_MOST_SIZES = 16  # tensors of a call, and dimensions of a tensor
_LARGEST_NUMBER = 2**63


class _NothingCallable(pickle.Unpickler):
    """A dump is dictionaries, lists, texts and numbers; whatever else a file asks for is refused."""

    def find_class(self, module: str, name: str) -> object:
        raise pickle.UnpicklingError(f"{module}.{name}")


def is_dump(path: str) -> bool:
    return _NAME.search(path) is not None


def lines(path: str) -> Iterator[str]:
    """What the dump at `path` says, a line for each group and each of its last calls. Raises OSError."""
    rank = match["rank"] if (match := _NAME.search(path)) is not None else "0"
    file = Path(path)
    dump = _loaded(file.read_bytes()) if file.stat().st_size <= _LARGEST else None
    start = f"[rank{rank}]: flight recorder of rank {rank}: "
    try:
        told = [*_said(dump)] if dump is not None else ["the dump cannot be read"]
    except Exception:  # noqa: BLE001 - a file may hold anything; one that makes no sense must not end a diagnosis
        told = ["the dump cannot be read"]
    for line in told:
        yield f"{start}{line}\n"


def _said(dump: Mapping[str, object]) -> Iterator[str]:
    entries = [entry for entry in _list(dump.get("entries")) if isinstance(entry, dict)]
    for group, calls in _by_group(entries).items():
        yield f"group {group}{_members(dump, group)}: {_status(dump, calls)}"
        for call in _told(calls):
            yield f"group {group}: {_call(call)}"


def _loaded(content: bytes) -> Mapping[str, object] | None:
    try:
        found = json.loads(content) if content[:1] == b"{" else _NothingCallable(io.BytesIO(content)).load()
    except Exception:  # noqa: BLE001 - a damaged pickle may raise anything
        return None
    return found if isinstance(found, dict) else None


def _list(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else ()


def _number(value: object) -> int:
    if isinstance(value, str) and len(value) < 20 and value.isascii() and value.removeprefix("-").isdecimal():
        return int(value)
    return value if isinstance(value, int) and abs(value) < _LARGEST_NUMBER else -1


def _by_group(entries: list[dict[str, object]]) -> dict[str, list[dict[str, object]]]:
    groups: dict[str, list[dict[str, object]]] = {}
    for entry in entries:
        if entry.get("is_p2p"):
            continue
        name = ":".join(_word(part) for part in _list(entry.get("process_group"))[:4]) or "?"
        groups.setdefault(name, []).append(entry)
    return groups


def _word(value: object) -> str:
    """A name, without what could pass for another line. Only texts and numbers: a nested list may grow without end."""
    return re.sub(r"[^\w.:-]", "_", str(value)[:80]) or "_" if isinstance(value, str | int) else "_"


def _path(value: object) -> str:
    return re.sub(r"[^\w ./\\~@+-]", "_", value[:400]) if isinstance(value, str) else "?"


def _sizes(value: object) -> str:
    """The sizes of the tensors of a call, where they are lists of numbers."""
    tensors = _list(value)
    whole = all(isinstance(one, list | tuple) and all(isinstance(size, int) for size in one) for one in tensors)
    if not isinstance(value, list | tuple) or not whole:
        return "?"
    return str([[_number(size) for size in _list(one)[:_MOST_SIZES]] for one in tensors[:_MOST_SIZES]])[:200]


def _members(dump: Mapping[str, object], group: str) -> str:
    config = dump.get("pg_config")
    described = config.get(group.partition(":")[0]) if isinstance(config, dict) else None
    ranks = described.get("ranks") if isinstance(described, dict) else None
    return (
        f" of ranks {ranks.replace(' ', '')}"
        if isinstance(ranks, str) and re.fullmatch(r"[\d, \[\]]{1,4000}", ranks)
        else ""
    )


def _status(dump: Mapping[str, object], calls: list[dict[str, object]]) -> str:
    statuses = dump.get("pg_status")
    status = statuses.get(_word(calls[-1].get("pg_id"))) if isinstance(statuses, dict) else None
    known = status if isinstance(status, dict) else {}
    done = [_number(call.get("collective_seq_id")) for call in calls if call.get("state") == "completed"]
    enqueued = max(
        _number(known.get("last_enqueued_collective")), *(_number(c.get("collective_seq_id")) for c in calls), -1
    )
    completed = max(_number(known.get("last_completed_collective")), *done, -1)
    return f"last enqueued collective: {enqueued}, last completed collective: {completed}"


def _told(calls: list[dict[str, object]]) -> list[dict[str, object]]:
    """The last ones, and those that never completed, oldest first."""
    open_ones = [call for call in calls[:-_LAST] if call.get("state") != "completed" and not call.get("retired")]
    return [*open_ones[: _MOST - _LAST], *calls[-_LAST:]]


def _call(call: dict[str, object]) -> str:
    types = ",".join(_word(kind) for kind in _list(call.get("input_dtypes"))[:_MOST_SIZES])
    state = "completed" if call.get("retired") else _word(call.get("state"))
    number, name = _number(call.get("collective_seq_id")), _word(call.get("profiling_name"))
    return f"collective {number} {name} of {_sizes(call.get('input_sizes'))} {types or '?'}, {state}{_place(call)}"


def _place(call: dict[str, object]) -> str:
    """The innermost frame outside torch."""
    for frame in _list(call.get("frames")):
        if isinstance(frame, dict) and not re.search(r"[/\\]torch[/\\]", path := _path(frame.get("filename"))):
            line, function = _number(frame.get("line")), _word(frame.get("name"))
            return f', called at File "{path}", line {line}, in {function}'
    return ""
