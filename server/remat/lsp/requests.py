"""Remat's own requests on the wire: camelCase JSON to the values of `remat.protocol` and back."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, TypeVar, cast

from remat.probe.lines import decoded
from remat.protocol import (
    ADVISE,
    APPLY_PLAN,
    DIAGNOSE,
    PROBE,
    PROBE_TARGETS,
    SNAPSHOT,
    AdviseParams,
    DiagnoseParams,
    PlanParams,
    ProbeParams,
    ProbeTargetsParams,
    SnapshotParams,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

OURS = frozenset({ADVISE, APPLY_PLAN, DIAGNOSE, PROBE, PROBE_TARGETS, SNAPSHOT})
T = TypeVar("T")


def diagnose_params(given: object) -> DiagnoseParams:
    """What an editor asks to have diagnosed. Raises ValueError, saying what was expected."""
    asked = _object(given, DIAGNOSE)
    text, paths = _optional(asked, "text"), _strings(asked, "paths")
    if text is None and not paths:
        raise ValueError(f"{DIAGNOSE}: expected a text or at least one path, got neither")
    name = _optional(asked, "name") or "log"
    return DiagnoseParams(name, text, paths, _optional(asked, "cwd"), _strings(asked, "permitted"))


def probe_params(given: object) -> ProbeParams:
    """What an editor asks to have probed. Raises ValueError, saying what was expected."""
    return _read(ProbeParams, given, PROBE)


def plan_params(given: object) -> PlanParams:
    """Which plan is to be written where. Raises ValueError, saying what was expected."""
    return _read(PlanParams, given, APPLY_PLAN)


def advise_params(given: object) -> AdviseParams:
    """What advice is wanted about. Raises ValueError, saying what was expected."""
    return _read(AdviseParams, given, ADVISE)


def snapshot_params(given: object) -> SnapshotParams:
    """Which file is to be read. Raises ValueError, saying what was expected."""
    return _read(SnapshotParams, given, SNAPSHOT)


def _read(kind: type[T], given: object, method: str) -> T:
    try:
        return decoded(kind, _snake_case(_object(given, method)))
    except TypeError as error:  # a field without a default is not there
        raise ValueError(f"{method}: {error}") from error


def _snake_case(given: object) -> object:
    if isinstance(given, dict):
        return {re.sub("[A-Z]", lambda match: f"_{match[0].lower()}", key): _snake_case(given[key]) for key in given}
    return [_snake_case(one) for one in given] if isinstance(given, list) else given


def probe_targets_params(given: object) -> ProbeTargetsParams:
    """The document whose models are wanted. Raises ValueError, saying what was expected."""
    uri = _optional(_object(given, PROBE_TARGETS), "uri")
    if uri is None:
        raise ValueError(f"{PROBE_TARGETS}: expected a uri, got none")
    return ProbeTargetsParams(uri)


def _object(given: object, method: str) -> Mapping[str, object]:
    if not isinstance(given, dict):
        raise ValueError(f"{method}: expected an object, got {type(given).__name__}")
    return cast("Mapping[str, object]", given)


def as_json(value: object) -> object:
    """Dataclasses as objects with camelCase names, tuples as arrays."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {camel(field.name): as_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple | list):
        return [as_json(one) for one in value]
    if isinstance(value, dict):
        return {key: as_json(one) for key, one in value.items()}
    return value


def camel(name: str) -> str:
    return re.sub("_([a-z])", lambda match: match[1].upper(), name)


def _optional(given: Mapping[str, object], key: str) -> str | None:
    value = given.get(key)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"expected {key} to be a string, got {type(value).__name__}")
    return value


def _strings(given: Mapping[str, object], key: str) -> tuple[str, ...]:
    values = given.get(key) or []
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ValueError(f"expected {key} to be an array of strings")
    return tuple(values)
