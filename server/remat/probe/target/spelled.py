"""Spells out the call that makes a model, as far as the project tells it, with `…` for what only the user knows."""

from __future__ import annotations

import ast
import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import torch

from remat.probe.built import FactMissingError
from remat.probe.target.scopes import HandedOverError, evaluate_in
from remat.probe.target.statements import dotted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from remat.probe.target.call_sites import Site
    from remat.probe.target.calls import Callee

OPEN = "…"
_LONGEST, _DEEPEST = 400, 4


@dataclass(frozen=True, slots=True)
class Open:
    """A parameter that only the user knows. `reason`: where the project gives it, and why that can't be worked out."""

    name: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Spelled:
    """The text of a call, and what is left open in it."""

    text: str
    open: tuple[Open, ...] = ()

    def missing(self) -> str:
        """Say what is open, together what has one reason."""
        reasons = dict.fromkeys(o.reason for o in self.open)
        return "; ".join(
            listed([f"`{o.name}`" for o in self.open if o.reason == reason]) + (f" ({reason})" if reason else "")
            for reason in reasons
        )


def listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def spelled(site: Site, callee: object, needed: Mapping[str, str]) -> Spelled:
    """Spell the call of a site. `needed`: each parameter without a default, with its text if the site gives none."""
    return _call(site, site.call, callee, needed, 0)


def without_site(callee: object, needed: Mapping[str, str]) -> Spelled:
    name = getattr(callee, "__name__", "model")
    given = ", ".join(f"{parameter}={text}" for parameter, text in needed.items())
    return Spelled(f"{name}({given})", tuple(Open(n) for n, text in needed.items() if OPEN in text))


def literal(value: object) -> str | None:
    """Return the text of a value that can be written down."""
    if isinstance(value, bool | int | float | str | None):
        return repr(value)
    if isinstance(value, torch.device):
        return repr(str(value))
    if isinstance(value, list | tuple | dict):
        text = repr(value)
        try:
            return text if ast.literal_eval(text) == value and len(text) < _LONGEST else None
        except (ValueError, SyntaxError):
            return None
    return None


def _call(site: Site, call: ast.Call, callee: object, needed: Mapping[str, str], depth: int) -> Spelled:
    named = _named(site, call, callee)
    if named is None:
        return without_site(callee, needed)
    texts: dict[str, str] = {}
    left: list[Open] = []
    for name, node in named.items():
        inner = _argument(site, name, node, depth, needed=name in needed)
        texts[name] = inner.text
        left += inner.open
    for name, text in needed.items():
        if name not in texts:
            texts[name] = text
            left += [Open(name)] if OPEN in text else []
    given = ", ".join(f"{name}={text}" for name, text in texts.items())
    return Spelled(f"{getattr(callee, '__name__', 'model')}({given})", tuple(left))


def _argument(site: Site, name: str, node: ast.expr, depth: int, *, needed: bool) -> Spelled:
    try:
        value = evaluate_in(site.file, node, site.scopes)
    except (Exception, SystemExit) as error:  # noqa: BLE001  (any code of the user's)
        what = (str(error).splitlines() or [""])[0]
        reason = (
            what if isinstance(error, FactMissingError | HandedOverError) else f"{type(error).__name__} {what}".strip()
        )
        inner = _made_there(site, node, depth)
        return inner or Spelled(OPEN, (Open(name, f"given at {site.place}, where {reason}"),))
    if needed and not isinstance(node, ast.Constant) and (value is None or (type(value) is int and value == 0)):
        return Spelled(OPEN, (Open(name, f"`{ast.unparse(node)}` at {site.place} is {value}"),))
    text = literal(value)
    if text is not None:
        return Spelled(text)
    inner = _made_there(site, node, depth)
    return inner or Spelled(OPEN, (Open(name, f"`{ast.unparse(node)}` at {site.place}"),))


def _made_there(site: Site, node: ast.expr, depth: int) -> Spelled | None:
    """Spell the call that makes an argument, where it is one, or a name that is assigned one."""
    if isinstance(node, ast.Name):
        node = _assigned(site, node) or node
    if not isinstance(node, ast.Call) or depth >= _DEEPEST:
        return None
    try:
        callee = evaluate_in(site.file, node.func, site.scopes)
    except (Exception, SystemExit):  # noqa: BLE001
        return None
    if not isinstance(callee, type) or callee.__module__ == "builtins" or "." in dotted(node.func):
        return None
    return _call(site, node, callee, {}, depth + 1)


def _assigned(site: Site, name: ast.Name) -> ast.expr | None:
    for scope in reversed(site.scopes):
        values = [
            statement.value
            for statement in ast.walk(scope)
            if isinstance(statement, ast.Assign)
            and statement.lineno < name.lineno
            and any(isinstance(t, ast.Name) and t.id == name.id for t in statement.targets)
        ]
        if values:
            return values[-1]
    return None


def _named(site: Site, call: ast.Call, callee: object) -> dict[str, ast.expr] | None:
    """Return the arguments of a call by the names of their parameters; None where they can't be told apart."""
    if any(isinstance(a, ast.Starred) for a in call.args):
        return None
    given: dict[str, ast.expr] = {}
    for keyword in call.keywords:
        given |= {keyword.arg: keyword.value} if keyword.arg else entries(site, keyword.value)
    try:
        signature = inspect.signature(cast("Callee[object]", callee))
        bound = dict(signature.bind_partial(*call.args, **given).arguments)
    except (TypeError, ValueError):
        return None
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            bound |= bound.pop(name, {})
    return bound if all(isinstance(node, ast.expr) for node in bound.values()) else None


def entries(site: Site, mapping: ast.expr) -> dict[str, ast.expr]:
    """Return the entries of what `**` hands over, each as an expression; nothing where they can't be known."""
    try:
        value = evaluate_in(site.file, mapping, site.scopes)
        names = list(cast("dict[str, object]", value).keys())
    except (Exception, SystemExit):  # noqa: BLE001  (any code of the user's)
        return {}
    return {name: ast.copy_location(_item(mapping, name), mapping) for name in names if isinstance(name, str)}


def _item(mapping: ast.expr, name: str) -> ast.Subscript:
    return ast.Subscript(mapping, ast.Constant(name), ast.Load())
