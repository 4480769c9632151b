"""The models that a document holds, for lenses and the palette: read line by line, since code is half-typed mostly."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from remat.protocol import ProbeTarget

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_CLASS = re.compile(r"class (?P<name>\w+)\((?P<bases>[^#\n]{1,400}?)\)?\s*:?\s*(?:#.*)?$")
_LOADED = re.compile(
    r"\b(?P<model>[A-Z]\w*(?:Model|For[A-Z]\w*|LMHeadModel)\w*)\.(?P<how>from_pretrained|from_config)\s*\("
)
_SPEC = re.compile(r"\s*#\s*remat:\s*probe\(")
_BASE = re.compile(r"(?:^|\.)(?:Module|Sequential|PreTrainedModel|LightningModule|ModelMixin|\w+For[A-Z]\w+)$")


def probe_targets(path: str, lines: Sequence[str]) -> list[ProbeTarget]:
    """
    Classes of modules, calls that load a model, and the file itself where a comment of no class says how to probe it.

    `path`: that of the document, for `ProbeTarget.target`. In the order of the lines.
    """
    classes = list(_classes(path, lines))
    others = [one for one in _calls(path, lines) if one.target != path or not _belongs(one.line, lines, classes)]
    return sorted([*classes, *others], key=lambda target: target.line)


def _belongs(comment: int, lines: Sequence[str], classes: Sequence[ProbeTarget]) -> bool:
    """Whether the comment on that line is one of a class, above it or inside: the class is the target then."""
    above = (number for number in range(comment, len(lines)) if not lines[number].startswith(("#", "@")))
    after = next(above, len(lines))
    return any(one.line == after or one.line < comment <= one.last_line for one in classes)


def _classes(path: str, lines: Sequence[str]) -> Iterator[ProbeTarget]:
    modules: set[str] = set()
    for number, line in enumerate(lines):
        found = _CLASS.match(line) if line.startswith("class ") else None
        if found is None:
            continue
        bases = [base.strip() for base in found["bases"].split(",")]
        if any(_BASE.search(base) or base in modules for base in bases):
            modules.add(found["name"])
            yield ProbeTarget(found["name"], f"{path}:{found['name']}", number, _last(lines, number))


def _calls(path: str, lines: Sequence[str]) -> Iterator[ProbeTarget]:
    for number, line in enumerate(lines):
        if "#" in line and _SPEC.match(line):
            yield ProbeTarget("this file", path, number, number)
        elif "from_" in line and (found := _LOADED.search(line.partition("#")[0])):
            yield ProbeTarget(f"{found['model']}.{found['how']}", f"{path}:{number + 1}", number, number)


def _last(lines: Sequence[str], first: int) -> int:
    """The last line of the statement that begins on `first`: before the next one that is not indented."""
    last = first
    for number in range(first + 1, len(lines)):
        text = lines[number]
        if text.strip() and not text.startswith((" ", "\t", "#", ")")):
            break
        if text.strip() and not text.startswith("#"):
            last = number
    return last
