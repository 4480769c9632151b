"""Says of inputs that were not found what was tried and how that failed, and asks for them."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

from remat.probe.batch.asked_inputs import ask_for
from remat.probe.batch.before_forward import before_forward
from remat.probe.batch.forward_source import real_forward
from remat.probe.target.as_called import none_where_it_failed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeAlias

    from torch import nn

    from remat.probe.batch.shapes import Recipe
    from remat.probe.batch.taken import Taken
    from remat.probe.batch.use import Use
    from remat.probe.built import FactMissingError
    from remat.probe.messages import Location

    Tried: TypeAlias = tuple[Recipe, BaseException] | None


def lacking(tried: Tried, model: nn.Module, taken: Taken) -> list[str]:
    """Return what may be left out as it is declared, where forward fails for want of some of it."""
    if tried is None or "None" not in str(tried[1]):
        return []
    none = none_where_it_failed(tried[1], real_forward(model))
    return [name for name in (*taken.expected, *taken.optional) if none and (name in taken.expected or name in none)]


def not_found(
    model: nn.Module, tried: Tried, tries: int, wanted: Mapping[str, Use], place: Location
) -> FactMissingError:
    what = f"what `{', '.join(wanted)}` of `{type(model).__name__}.forward` looks like"
    if tried is None:
        return ask_for(what, wanted, place)
    recipe, error = tried
    if (unprepared := before_forward(model, error, place)) is not None:
        return unprepared
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == place.path]
    where = f" at {place.path}:{frames[-1].lineno}" if frames else ""
    reason = (str(error).strip().splitlines() or [""])[0]
    told = f"tried {tries}, first {recipe}, which failed{where} with {type(error).__name__}: {reason}"
    return ask_for(f"{what} ({told})", wanted, place)
