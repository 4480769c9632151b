"""From the probe's name for blocks, `decoder.layers.*`, to the loop of a class that runs them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from remat.lint.code.modules import held
from remat.lint.code.source import At, Call
from remat.lint.code.syntax import dotted
from remat.lint.kv_cache.hugging_face import LOADS
from remat.lint.layers.classes import ancestry
from remat.lint.layers.stacks import stacks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from remat.lint.code.source import Place, Source
    from remat.lint.layers.classes import Klass
    from remat.lint.layers.sites import Sites
    from remat.lint.layers.stacks import Stack

_LIBRARIES = frozenset({"transformers", "peft"})
_DEPTH = 8


@dataclass(frozen=True, slots=True)
class Ran:
    """A class of the file runs these blocks: in loops, or as one `nn.Sequential` that is called at `called`."""

    owner: Klass
    layers: str
    loops: tuple[Stack, ...]
    called: tuple[Call, ...]


@dataclass(frozen=True, slots=True)
class Library:
    """A class of a library runs them, which is made by `call` and kept as `name`: `self.encoder`."""

    name: str
    call: Call


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """They are run by a class that is not in this file, or not in a way that is seen. `seen`: the class last seen.

    `made`: the class that it keeps for that part, as imported: `model.GPT`; empty where it is not seen.
    """

    seen: str
    made: str = ""


@dataclass(frozen=True, slots=True)
class Code:
    """A file with its classes, and where it checkpoints."""

    source: Source
    known: Mapping[str, Klass]
    sites: Sites


def find(code: Code, owner: Klass, path: list[str], depth: int = _DEPTH) -> Ran | Library | Elsewhere:
    """`path`: attributes from `owner` to the list of blocks, without the `*` for their number."""
    layers = ".".join(["self", *path])
    family = list(ancestry(owner, code.known))
    if "*" not in path:
        for klass in family:
            loops = tuple(s for s in stacks(code.source, klass, code.known, code.sites) if s.layers == layers)
            called = () if loops else tuple(_calls_of(code.source, klass, layers))
            if loops or called:
                return Ran(klass, layers, loops, called)
    kept = [made for klass in family for made in _assigned(code.source, klass, f"self.{path[0]}")] if path else []
    if len(path) > 1 and depth and kept:
        return _below(code, owner, path, kept[-1], depth - 1)
    return Elsewhere(owner.name)


def _below(code: Code, owner: Klass, path: list[str], made: Call, depth: int) -> Ran | Library | Elsewhere:
    rest = path[1:]
    if path[1] == "*":
        listed = held(code.source, At(made.node, made.scope, made.place)) or []
        inside = {".".join(dotted(one.node.func)) for one in listed}
        if len(inside) == 1 and len(path) > 2 and (name := inside.pop()) in code.known:
            return find(code, code.known[name], path[2:], depth)
        return Elsewhere(owner.name)
    name = ".".join(dotted(made.node.func))
    if name in code.known:
        return find(code, code.known[name], rest, depth)
    if made.names and all(_of_library(one) for one in made.names):
        return Library(f"self.{path[0]}", made)
    return Elsewhere(owner.name, imported_class(made))


def imported_class(made: Call) -> str:
    """`model.GPT` for a call of what `from model import GPT` brought; empty for what cannot be told."""
    return next(iter(made.names)) if len(made.names) == 1 and not any("?" in one for one in made.names) else ""


def _of_library(name: str) -> bool:
    parts = name.split(".")
    return parts[0] in _LIBRARIES and (parts[-1] in LOADS or parts[-1][:1].isupper())


def _assigned(source: Source, klass: Klass, target: str) -> Iterator[Call]:
    """The calls whose result a class keeps as `target`."""
    for place in klass.places(source):
        for node, scope in place.parsed.nodes.get(cst.Assign, ()):
            named = isinstance(node, cst.Assign) and any(".".join(dotted(t.target)) == target for t in node.targets)
            if named and isinstance(node, cst.Assign) and isinstance(node.value, cst.Call):
                yield Call(node.value, scope, place, source.meanings(node.value.func, scope, place))


def _calls_of(source: Source, klass: Klass, layers: str) -> Iterator[Call]:
    """`self.blocks(x)`, where `self.blocks` is an `nn.Sequential`."""
    made = list(_assigned(source, klass, layers))
    if not made or not all(name.endswith("nn.Sequential") for one in made for name in (one.names or {"?"})):
        return
    for place in klass.places(source):
        for node, scope in place.parsed.nodes.get(cst.Call, ()):
            if isinstance(node, cst.Call) and ".".join(dotted(node.func)) == layers:
                yield Call(node, scope, place, frozenset())


def statement_of(place: Place, node: cst.CSTNode) -> cst.SimpleStatementLine | None:
    """The line that `node` stands on, where it holds one statement."""
    line = next((a for a in place.parsed.ancestors(node) if isinstance(a, cst.SimpleStatementLine)), None)
    return line if line is not None and len(line.body) == 1 else None
