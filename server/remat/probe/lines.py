"""The messages of the probe as lines, one JSON object each; the standard library only."""

from __future__ import annotations

import json
import types
import typing
from dataclasses import asdict, fields, is_dataclass
from typing import TYPE_CHECKING, Literal, TypeVar, cast

from remat.probe.messages import (
    Done,
    Environment,
    Failure,
    Log,
    Progress,
    Request,
    Unmeasured,
    VariantResult,
)

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from remat.probe.messages import Event

T = TypeVar("T")
_EVENTS: dict[str, type[DataclassInstance]] = {
    kind.__name__: kind for kind in (Environment, Progress, VariantResult, Failure, Unmeasured, Log, Done)
}


def request_line(request: Request) -> str:
    return json.dumps(asdict(request)) + "\n"


def read_request(line: str) -> Request:
    """Raises ValueError when the line is no request."""
    return decoded(Request, json.loads(line))


def event_line(event: Event) -> str:
    return json.dumps({"event": type(event).__name__, **asdict(event)}) + "\n"


def read_event(line: str) -> Event:
    """Raises ValueError when the line is no event."""
    data = json.loads(line)
    kind = _EVENTS.get(data.pop("event", "")) if isinstance(data, dict) else None
    if kind is None:
        raise ValueError(f"expected an event of the probe, got {line[:80]!r}")
    return cast("Event", decoded(kind, data))


def decoded(kind: type[T], data: object) -> T:
    """`data`, read from JSON, as a value of `kind`."""
    return cast("T", _as(kind, data))


def _as(kind: object, data: object) -> object:
    if isinstance(kind, type) and is_dataclass(kind):
        return _as_dataclass(kind, data)
    origin = typing.get_origin(kind)
    if origin is Literal:
        return _checked(data in typing.get_args(kind), data, kind)
    if origin in {typing.Union, types.UnionType}:
        return _as_optional(typing.get_args(kind), data)
    if origin is tuple:
        return _as_tuple(typing.get_args(kind), data)
    if origin is dict and isinstance(data, dict):
        value = typing.get_args(kind)[1]
        return {str(key): _as(value, item) for key, item in data.items()}
    if kind is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    return _checked(isinstance(kind, type) and type(data) is kind, data, kind)


def _as_dataclass(kind: type[DataclassInstance], data: object) -> object:
    if not isinstance(data, dict):
        raise ValueError(f"expected the fields of {kind.__name__}, got {data!r}")
    hints = typing.get_type_hints(kind)
    known = {field.name for field in fields(kind)}
    return kind(**{str(name): _as(hints[str(name)], value) for name, value in data.items() if name in known})


def _as_optional(choices: tuple[object, ...], data: object) -> object:
    if data is None and type(None) in choices:
        return None
    return _as(next(choice for choice in choices if choice is not type(None)), data)


def _as_tuple(items: tuple[object, ...], data: object) -> object:
    if not isinstance(data, list):
        raise ValueError(f"expected a list, got {data!r}")
    return tuple(_as(items[0], item) for item in data)


def _checked(fits: bool, data: object, kind: object) -> object:  # noqa: FBT001 -- the answer of the caller's test
    if not fits:
        raise ValueError(f"expected {kind}, got {data!r}")
    return data
