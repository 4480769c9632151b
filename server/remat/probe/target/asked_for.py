"""Makes a model; where that fails for want of something that a line of the user's can say, asks for that line."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from remat.probe.built import FactMissingError
from remat.probe.guards import error_location, is_users, last_line
from remat.probe.target.absent_tokenizers import left_out_of
from remat.probe.target.asides import left_out

if TYPE_CHECKING:
    from collections.abc import Callable

    from remat.probe.messages import Location
    from remat.probe.target.spec import Spec


def made_or_asked(make: Callable[[], object], spec: Spec, place: Location) -> object:
    """Return what `make` makes. Raises FactMissingError for what is asked for, and what the user's own code raises."""
    try:
        return make()
    except Exception as error:
        if left_out_of(error):
            return made_or_asked(make, spec, place)
        if (unbound := _unbound(error)) is not None:
            raise unbound from error
        if spec.model is None or isinstance(error, FactMissingError):
            raise
        fact = f"how to make what `model=` says: that fails at {last_line(error)} ({type(error).__name__}: {error})"
        how = f"correct line {spec.line} of {place.path}: {spec.model}"
        raise FactMissingError(fact, how, place) from error


def _unbound(error: Exception) -> FactMissingError | None:
    """Ask for a name that a file reads and nothing in it binds: whoever imports it may put it there."""
    if not isinstance(error, NameError) or isinstance(error, FactMissingError | UnboundLocalError) or left_out():
        return None
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__) if is_users(frame.f_code.co_filename)]
    place = error_location(error)
    if not frames or place is None or not error.name or not Path(place.path).is_file():
        return None
    line = frames[-1].f_code.co_firstlineno
    fact = f"`{error.name}`, which {place.path}:{place.line} reads and nothing in that file binds"
    how = f'add above line {line} of {place.path}: # remat: probe(names={{"{error.name}": …}})'
    return FactMissingError(fact, how, place)
