"""What a file says about `use_cache`, wherever it says it: on, off, off by a flag, or something that can't be read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import libcst as cst

from remat.lint.syntax import dotted, is_literal, string_value, walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remat.lint.parsed import Parsed
    from remat.lint.source import Place
    from remat.lint.training_script import Script

USE_CACHE = re.compile(r"\buse_cache\b")
_FLAG = re.compile(r"(?i)checkpointing|gradient_ck|grad_ck|recompute|use_gc")


class Said(Enum):
    OFF = "use_cache=False"
    ON = "use_cache=True"
    BY_FLAG = "off where a flag of checkpointing is on"
    UNKNOWN = "a value that can't be read here"


class Where(Enum):
    CONFIG = "an attribute of a configuration"
    CALL = "an argument of a call"
    OTHER = "a dictionary, a setattr, a parameter"


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
        if place.stale or USE_CACHE.search(script.source.text, place.piece.start, place.piece.end):
            mentions, others = _mentions(place.parsed)
            for node, where, _, value in mentions:
                if (setting := _setting(place, node, where, value)) is not None:
                    yield setting
            for node in others:
                if not _in_generation(place, node):
                    yield CacheSetting(Said.UNKNOWN, Where.OTHER, node, place)


Mention = tuple[cst.CSTNode, Where, cst.CSTNode, cst.BaseExpression]


_MENTIONS: WeakKeyDictionary[Parsed, tuple[list[Mention], list[cst.CSTNode]]] = WeakKeyDictionary()


def _mentions(parsed: Parsed) -> tuple[list[Mention], list[cst.CSTNode]]:
    """What a piece says of `use_cache`: what sets it, and every other use of the name."""
    if parsed not in _MENTIONS:
        nodes = list(walk(parsed.tree))
        found = [m for node in nodes if (m := _mention(node)) is not None]
        owned = {id(part) for _, _, part, _ in found}
        _MENTIONS[parsed] = found, [node for node in nodes if _is_the_name(node) and id(node) not in owned]
    return _MENTIONS[parsed]


def _mention(node: cst.CSTNode) -> Mention | None:
    """(the statement or argument, its kind, the node that spells use_cache, the value)."""
    if isinstance(node, cst.Arg) and node.keyword is not None and node.keyword.value == "use_cache":
        return node, Where.CALL, node.keyword, node.value
    if isinstance(node, cst.Assign):
        target = node.targets[-1].target
        if isinstance(target, cst.Attribute) and target.attr.value == "use_cache":
            return node, Where.CONFIG, target.attr, node.value
        if isinstance(target, cst.Subscript):
            for element in target.slice:
                index = element.slice.value if isinstance(element.slice, cst.Index) else None
                if index is not None and string_value(index) == "use_cache":
                    return node, Where.OTHER, index, node.value
    if isinstance(node, cst.DictElement) and string_value(node.key) == "use_cache":
        return node, Where.OTHER, node.key, node.value
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and len(node.args) > 1:
        attribute = node.args[1].value
        if node.func.value == "setattr" and string_value(attribute) == "use_cache" and len(node.args) > 2:
            return node, Where.CONFIG, attribute, node.args[2].value
        if node.func.value in {"hasattr", "getattr"} and string_value(attribute) == "use_cache":
            return node, Where.OTHER, attribute, node
    return None


def _is_the_name(node: cst.CSTNode) -> bool:
    return (isinstance(node, cst.Name) and node.value == "use_cache") or string_value(node) == "use_cache"


def _setting(place: Place, node: cst.CSTNode, where: Where, value: cst.BaseExpression) -> CacheSetting | None:
    if value is node or _in_generation(place, node) or (where is Where.CALL and without_gradients(place, node)):
        return None  # `hasattr(config, "use_cache")` sets nothing
    said, flag = read_value(value)
    if said is Said.OFF:
        guard = _guard(place, node)
        said, flag = (Said.BY_FLAG, guard) if guard is not None else (said, None)
    return CacheSetting(said, where, node, place, flag)


def read_value(value: cst.BaseExpression) -> tuple[Said, cst.BaseExpression | None]:
    if is_literal(value, "False"):
        return Said.OFF, None
    if is_literal(value, "True") or is_literal(value, "None"):
        return Said.ON, None
    if isinstance(value, cst.UnaryOperation) and isinstance(value.operator, cst.Not):
        return (Said.BY_FLAG, value.expression) if _is_flag(value.expression) else (Said.UNKNOWN, None)
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


def _guard(place: Place, node: cst.CSTNode) -> cst.BaseExpression | None:
    """The test of an `if` about checkpointing whose body holds `node`."""
    below = node
    for above in place.parsed.ancestors(node):
        if isinstance(above, cst.If) and below is above.body and _is_flag(above.test):
            return above.test
        if isinstance(above, cst.FunctionDef | cst.ClassDef):
            return None
        below = above
    return None


def guarded_by_flag(place: Place, node: cst.CSTNode) -> bool:
    """Whether an `if` about checkpointing decides that `node` runs."""
    return _guard(place, node) is not None


def _in_generation(place: Place, node: cst.CSTNode) -> bool:
    """`generate(use_cache=…)`, a GenerationConfig, `generation_config.use_cache`: training does not look there."""
    if isinstance(node, cst.Assign):
        return any("generation_config" in dotted(t.target) for t in node.targets)
    above = next((a for a in place.parsed.ancestors(node) if isinstance(a, cst.Call | cst.Attribute | cst.Dict)), None)
    if isinstance(above, cst.Attribute):
        return "generation_config" in dotted(above)
    name = dotted(above.func)[-1:] if isinstance(above, cst.Call) else []
    return bool(name) and ("generate" in name[0] or name[0] in {"GenerationConfig", "pipeline"})


def without_gradients(place: Place, node: cst.CSTNode) -> bool:
    """Whether `node` runs under `torch.no_grad()` or `torch.inference_mode()`, as far as its function shows."""
    for above in place.parsed.ancestors(node):
        if isinstance(above, cst.With) and any(_is_no_grad(item.item) for item in above.items):
            return True
        if isinstance(above, cst.FunctionDef) and any(_is_no_grad(d.decorator) for d in above.decorators):
            return True
    return False


def _is_no_grad(expression: cst.BaseExpression) -> bool:
    func = expression.func if isinstance(expression, cst.Call) else expression
    return dotted(func)[-1:] in (["no_grad"], ["inference_mode"])
