"""Stacks that run bare beside a checkpointed one: in the same class, or in two parts of one model."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from remat.lint.layers.classes import ancestry
from remat.lint.layers.stacks import SELF_CHECKPOINTING, Stack, comparable, exclusive, handed_over, stacks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from remat.lint.code.source import Source
    from remat.lint.layers.classes import Klass
    from remat.lint.layers.sites import Sites

_LAYER_LOOP = re.compile(r"\bfor\b[^\n]*\bin\b[^\n]*\bself\.|\bfor\b[^\n]*\bin\s+range\(")
_KEPT = re.compile(r"\bself\.(\w+)[ \t]*(?::[^=\n]+)?=[ \t]*\(?\s*(\w+)\(")
_HELD = re.compile(r"(?:ModuleList|append)\(\s*[\[(]?\s*(\w+)\(")


@lru_cache(1024)
def _has_layer_loop(text: str) -> bool:
    return _LAYER_LOOP.search(text) is not None


@lru_cache(1024)
def _held(text: str) -> tuple[str, ...]:
    return tuple(_HELD.findall(text))


def skipped_beside(source: Source, known: Mapping[str, Klass], sites: Sites) -> Iterator[tuple[Stack, Stack]]:
    """Each bare stack with the checkpointed one that it runs beside."""
    read: dict[str, list[Stack]] = {}

    def loops(klass: Klass) -> list[Stack]:
        if klass.name not in read:
            read[klass.name] = list(stacks(source, klass, known, sites)) if _has_layer_loop(klass.text) else []
        return read[klass.name]

    models = _models_of(known)
    for host in known.values():
        if not _may_hold_checkpointed_loop(host, known, sites):
            continue
        wrapped = [s for s in loops(host) if s.checkpointed]
        for stack in loops(host) if wrapped else ():
            against = [w for w in wrapped if not exclusive(stack.loop, w.loop)]
            if stack.runs_plainly and not handed_over(stack.layers, loops(host), source, host, sites):
                yield from _first(stack, against)
        for other in _parts_beside(host, models.get(host.name, ()), known) if wrapped else ():
            if not any(s.checkpointed for s in loops(other)):
                for stack in loops(other):
                    yield from _first(stack, wrapped)


def _first(plain: Stack, wrapped: list[Stack]) -> Iterator[tuple[Stack, Stack]]:
    """Nothing for a frozen stack: with an input that needs no gradient it keeps no activations."""
    frozen = plain.bare and _is_frozen(plain.layers, plain.owner.text)
    against = next((w for w in wrapped if plain.bare and not frozen and comparable(plain, w)), None)
    if against is not None:
        yield plain, against


def _is_frozen(layers: str, text: str) -> bool:
    """Whether the class switches the gradients of these layers off, at once or parameter by parameter."""
    name = re.escape(layers)
    return re.search(rf"{name}\b[^\n]*\n?[^\n]*requires_grad(?:_\(\s*False|\s*=\s*False)", text) is not None


def _may_hold_checkpointed_loop(klass: Klass, known: Mapping[str, Klass], sites: Sites) -> bool:
    if not _has_layer_loop(klass.text):
        return False
    if klass.speaks_of_checkpointing or any(f"{w}(" in klass.text for w in sites.wrappers):
        return True
    held = {known[n] for n in _held(klass.text) if n in known}
    return any(b.endswith(SELF_CHECKPOINTING) for k in held for a in ancestry(k, known) for b in a.bases)


def _models_of(known: Mapping[str, Klass]) -> dict[str, list[Klass]]:
    """Class name to the classes of the file that keep an instance of it."""
    found: dict[str, list[Klass]] = {}
    for model in known.values():
        for name in _kept(model.text):
            found.setdefault(name, []).append(model)
    return found


def _parts_beside(host: Klass, models: Iterable[Klass], known: Mapping[str, Klass]) -> Iterator[Klass]:
    """The classes that a model of the file has as parts beside `host`, and that never speak of checkpointing."""
    for model in models:
        kept = _kept(model.text)
        for part in (known[n] for n in kept if n in known and n != host.name):
            both = kept[part.name] | kept[host.name]  # under one name they are alternatives
            apart = len(both) > 1 and part.name not in host.made and host.name not in part.made
            if apart and not part.speaks_of_checkpointing and _has_layer_loop(part.text):
                yield part


@lru_cache(1024)
def _kept(text: str) -> dict[str, frozenset[str]]:
    """The classes whose instances a class keeps, with the attributes it keeps them under."""
    found: dict[str, frozenset[str]] = {}
    for attribute, name in _KEPT.findall(text):
        found[name] = found.get(name, frozenset()) | {attribute}
    return found
