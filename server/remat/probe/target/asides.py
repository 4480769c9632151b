"""What is left out or assumed while a model is made, to be said of it once it is."""

from __future__ import annotations

import sys

_options: dict[str, list[str]] = {}
"""options of a command line that were required and not given, by the program that was started"""
_said: list[str] = []
"""what was set aside while the model was made, each a sentence"""


def set_aside() -> tuple[str, ...]:
    """Return what was set aside since the last call."""
    said = tuple(dict.fromkeys(_said))
    _said.clear()
    return said


def note(text: str) -> None:
    """Say something that was assumed while the model was made."""
    _said.append(text)


def left_out() -> tuple[str, ...]:
    return tuple(dict.fromkeys(_options.get(sys.argv[0], ())))


def options_left_out(names: list[str]) -> None:
    """Note options of a command line that are required and not given."""
    _options.setdefault(sys.argv[0], []).extend(names)
