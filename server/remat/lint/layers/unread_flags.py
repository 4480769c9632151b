"""Checkpointing flags that a model stores and nothing reads: switching them on changes nothing."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from remat.lint.layers.classes import ancestry, parts
from remat.lint.layers.stacks import kind, stacks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from remat.lint.code.source import Source
    from remat.lint.layers.classes import Klass
    from remat.lint.layers.sites import Sites
    from remat.lint.layers.stacks import Stack

_FLAG = r"""(?:use_|enable_|do_)?(?:grad(?:ient)?_|activation_|act_)?(?:checkpointing|checkpoint|ckpt)|with_cp
|checkpoint_activations?|(?:activation|grad(?:ient)?)_checkpointing_enabled"""
_STORED = re.compile(rf"(?x)self\.(?P<flag>{_FLAG})[ \t]*(?::[^=\n]+)?=(?!=)[ \t]*(?P<value>[^#\n]+)")
_STORE = re.compile(r"[ \t]*(?::[^=\n]+)?=(?!=)")
_LOADED_FROM_SELF, _LOADED_ELSEWHERE = "self.flag", "other.flag"
_SUPPORT = re.compile(r"(?m)^[ \t]+_?supports_gradient_checkpointing[ \t]*(?::[ \t]*bool[ \t]*)?=[ \t]*(True|False)\b")


@lru_cache(1024)
def _stores_a_flag(text: str) -> bool:
    return _STORED.search(text) is not None


def any_stored(known: Mapping[str, Klass]) -> bool:
    """Whether a class of the file stores a flag at all: asked of each class once, for the file at each edit."""
    return any(_stores_a_flag(klass.text) for klass in known.values())


def unread(source: Source, known: Mapping[str, Klass], sites: Sites) -> Iterator[tuple[Stack, str]]:
    """Each bare layer loop of a class that stores a flag in vain, with the flag."""
    for klass in known.values():
        flag = next((m["flag"] for m in _STORED.finditer(klass.text) if _in_vain(source.text, klass, m, known)), None)
        loops = stacks(source, klass, known, sites) if flag is not None else []
        if flag is not None and not any(s.checkpointed for s in loops):
            for stack in loops:
                seen = len(stack.held) == len(stack.names)
                if seen and stack.bare and all(kind(k) for k in stack.held):
                    yield stack, flag


def _in_vain(text: str, klass: Klass, stored: re.Match[str], known: Mapping[str, Klass]) -> bool:
    return not _read(text, klass, stored["flag"], known) and _declared(klass, stored, known)


def _declared(klass: Klass, stored: re.Match[str], known: Mapping[str, Klass]) -> bool:
    """Whether the class, a setter, or an argument that is kept for it only promises that the flag does something."""
    if said := _support(klass, known):
        return "False" not in said
    value = stored["value"].strip()
    if value == "False":
        stores = (m["value"].strip() for m in _STORED.finditer(klass.text) if m["flag"] == stored["flag"])
        return any(v != "False" for v in stores) or _supported_by_a_model_of(klass, known)
    if not value.isidentifier():
        return "." in value
    uses = rf"(?:[=(,\[]|\b(?:if|and|or|not|in|return))\s*{value}\b(?!\s*[:=])"
    return len(re.findall(uses, klass.text)) == 1  # the store itself


def _support(klass: Klass, known: Mapping[str, Klass]) -> list[str]:
    return [m[1] for k in ancestry(klass, known) for m in _SUPPORT.finditer(k.text)]


def _supported_by_a_model_of(klass: Klass, known: Mapping[str, Klass]) -> bool:
    """Whether a model with this part declares support: transformers then sets the flag on each of its modules."""
    models = (k for k in known.values() if klass.name in parts(k, known))
    said = [s for k in models for s in _support(k, known)]
    return bool(said) and "False" not in said


def _read(text: str, klass: Klass, flag: str, known: Mapping[str, Klass]) -> bool:
    """Whether the class, its bases or its subclasses read the flag, or anybody reads such a flag elsewhere."""
    family = [k for k in known.values() if klass in ancestry(k, known)]
    if any(_LOADED_FROM_SELF in _uses(k.text, flag) for k in (*ancestry(klass, known), *family)):
        return True
    return _LOADED_ELSEWHERE in _uses(text, flag)


@lru_cache(1024)
def _uses(text: str, flag: str) -> frozenset[str]:
    """How the flag's name occurs outside comments."""
    found = set[str]()
    for match in re.finditer(rf"{flag}\b", text):
        line = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
        if "#" not in line and not _STORE.match(text, match.end()):
            if line.endswith("self."):
                found.add(_LOADED_FROM_SELF)
            elif line.endswith((".", "'", '"')):
                found.add(_LOADED_ELSEWHERE)
    return frozenset(found)
