"""What a file says about `use_cache`, wherever it says it: on, off, off by a flag, or something that can't be read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import libcst as cst

from remat.lint.code.gradients import surely_without_gradients
from remat.lint.code.strings import STRING
from remat.lint.code.syntax import dotted, is_literal, string_value, walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remat.lint.code.parsed import Parsed
    from remat.lint.code.source import Place
    from remat.lint.kv_cache.training_script import Script

_FLAG = re.compile(r"(?i)checkpointing|gradient_ck|grad_ck|recompute|use_gc")
_USE_CACHE = re.compile(r"\buse_cache\b")
_IN_CODE = re.compile(rf"""#[^\n]*|["'](use_cache)["']|{STRING}|\b(use_cache)\b""", re.DOTALL)


class Said(Enum):
    OFF = "use_cache=False"
    ON = "use_cache=True"
    BY_FLAG = "off where a flag of checkpointing is on"
    UNKNOWN = "a value that can't be read here"


class Where(Enum):
    CONFIG = "an attribute of a configuration"
    CALL = "an argument of a call"
    OTHER = "a dictionary, or the name in any other use"


@dataclass(frozen=True, slots=True)
class CacheSetting:
    """One mention. `flag`: the expression that decides, for BY_FLAG."""

    said: Said
    where: Where
    node: cst.CSTNode
    place: Place
    flag: cst.BaseExpression | None = None


def cache_settings(script: Script) -> Iterator[CacheSetting]:
    """Every mention that can matter in training: generation and evaluation without gradients are left out."""
    for place in script.places:
        text = script.source.text[place.piece.start : place.piece.end]
        if place.stale:
            text = place.parsed.tree.code  # what stood here when it last parsed
        if not _USE_CACHE.search(text):
            continue
        mentions = _mentions(place.parsed)
        for mention in mentions:
            if (setting := _setting(place, mention)) is not None:
                yield setting
        if sum(1 for match in _IN_CODE.finditer(text) if match.lastindex) > len(mentions):
            yield CacheSetting(Said.UNKNOWN, Where.OTHER, place.parsed.tree, place)


@dataclass(frozen=True, slots=True)
class _Mention:
    """`value` None: it sets nothing. `called`: the function whose argument it is."""

    node: cst.CSTNode
    where: Where
    value: cst.BaseExpression | None
    called: str = ""


_MENTIONS: WeakKeyDictionary[Parsed, list[_Mention]] = WeakKeyDictionary()


def _mentions(parsed: Parsed) -> list[_Mention]:
    if parsed not in _MENTIONS:
        found: list[_Mention] = []
        for kind in (cst.Call, cst.Assign, cst.Dict):
            for node, _ in parsed.nodes.get(kind, ()):
                found += _in_node(node)
        _MENTIONS[parsed] = found
    return _MENTIONS[parsed]


def _in_node(node: cst.CSTNode) -> Iterator[_Mention]:
    if isinstance(node, cst.Call):
        yield from _in_call(node)
    elif isinstance(node, cst.Assign):
        yield from _in_assignment(node)
    elif isinstance(node, cst.Dict):
        for element in node.elements:
            if isinstance(element, cst.DictElement) and string_value(element.key) == "use_cache":
                yield _Mention(element, Where.OTHER, element.value)


def _in_call(node: cst.Call) -> Iterator[_Mention]:
    for arg in node.args:
        if arg.keyword is not None and arg.keyword.value == "use_cache":
            yield _Mention(arg, Where.CALL, arg.value, (dotted(node.func) or [""])[-1])
    if isinstance(node.func, cst.Name) and len(node.args) > 1 and string_value(node.args[1].value) == "use_cache":
        if node.func.value == "setattr" and len(node.args) > 2:
            yield _Mention(node, Where.CONFIG, node.args[2].value)
        elif node.func.value in {"hasattr", "getattr"}:
            yield _Mention(node, Where.OTHER, None)


def _in_assignment(node: cst.Assign) -> Iterator[_Mention]:
    for target in (t.target for t in node.targets):
        if isinstance(target, cst.Attribute) and target.attr.value == "use_cache":
            yield _Mention(node, Where.CONFIG, None if "generation_config" in dotted(target) else node.value)
        elif isinstance(target, cst.Subscript) and _subscript(target) == "use_cache":
            yield _Mention(node, Where.OTHER, node.value)


def _subscript(node: cst.Subscript) -> str | None:
    index = node.slice[0].slice
    return string_value(index.value) if isinstance(index, cst.Index) else None


def _setting(place: Place, mention: _Mention) -> CacheSetting | None:
    generation = "generate" in mention.called or mention.called in {"GenerationConfig", "pipeline"}
    if mention.value is None or generation:
        return None
    said, flag = read_value(mention.value)
    if said is not Said.ON and mention.where is Where.CALL and surely_without_gradients(place, mention.node):
        return None
    return CacheSetting(said, mention.where, mention.node, place, flag)


def read_value(value: cst.BaseExpression) -> tuple[Said, cst.BaseExpression | None]:
    """What a value says, with the flag that decides."""
    if is_literal(value, "False"):
        return Said.OFF, None
    if is_literal(value, "True") or is_literal(value, "None"):
        return Said.ON, None
    if isinstance(value, cst.UnaryOperation) and isinstance(value.operator, cst.Not) and _is_flag(value.expression):
        return Said.BY_FLAG, value.expression
    if isinstance(value, cst.IfExp):
        sides = [is_literal(side, "False") for side in (value.body, value.orelse)]
        negated = isinstance(value.test, cst.UnaryOperation)
        if _is_flag(value.test) and sides == [not negated, negated]:
            return Said.BY_FLAG, value.test.expression if isinstance(value.test, cst.UnaryOperation) else value.test
        if all(sides):
            return Said.OFF, None
    return Said.UNKNOWN, None


def _is_flag(test: cst.BaseExpression) -> bool:
    return any(isinstance(n, cst.Name) and _FLAG.search(n.value) for n in walk(test))


def deciding_flag(setting: CacheSetting) -> cst.BaseExpression | None:
    """The flag that a cache is turned off by: in the value, or in an `if` around it. None: it is off in any case."""
    if setting.said is Said.BY_FLAG:
        return setting.flag
    return guarding_flag(setting.place, setting.node) if setting.said is Said.OFF else None


def guarding_flag(place: Place, node: cst.CSTNode) -> cst.BaseExpression | None:
    """The test of an `if` about checkpointing whose body holds `node`."""
    below = node
    for above in place.parsed.ancestors(node):
        if isinstance(above, cst.If) and below is above.body and _is_flag(above.test):
            return above.test
        if isinstance(above, cst.FunctionDef | cst.ClassDef):
            return None
        below = above
    return None
