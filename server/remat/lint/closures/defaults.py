"""Edits that give a lambda or def one more parameter, whose default is evaluated when the function is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from remat.finding import Edit, Span
from remat.lint.edits import after_last, insert

if TYPE_CHECKING:
    from remat.lint.code.source import Place, Source
    from remat.lint.code.syntax import Function


def add_default(source: Source, place: Place, function: Function, parameter: str) -> tuple[Edit, ...]:
    """`parameter` (`name=value`) where no positional argument reaches it: last, after `*args`, before `**kwargs`."""
    params = function.params
    if params.star_kwarg is not None:
        keywords = source.span(place, params.star_kwarg)
        return (insert(keywords.start, f"{parameter}, "),) if keywords else ()
    named = params.kwonly_params or ([params.star_arg] if isinstance(params.star_arg, cst.Param) else params.params)
    last = _slash(source, place, params) if not named else _whole(source, place, named[-1])
    whole, body = source.span(place, function), source.span(place, function.body)
    if whole is None or body is None:
        return ()
    if last is None:
        return _only(source, place, function, parameter)
    closing = ":" if isinstance(function, cst.Lambda) else ")"
    return after_last(source.text, last, _next(source.text, last.end, closing), parameter)


def _slash(source: Source, place: Place, params: cst.Parameters) -> Span | None:
    slash = source.span(place, params.posonly_ind) if isinstance(params.posonly_ind, cst.ParamSlash) else None
    return Span(slash.start, slash.start + 1) if slash else None


def _whole(source: Source, place: Place, param: cst.Param) -> Span | None:
    """A parameter with its annotation and default: libcst's span of it ends after the name."""
    start = source.span(place, param)
    parts = [p for p in (param.default, param.annotation and param.annotation.annotation) if p is not None]
    end = source.span(place, parts[0]) if parts else start
    if start is None or end is None:
        return None
    at = end.end
    for _ in getattr(parts[0], "rpar", ()) if parts else ():
        at = _next(source.text, at, ")") + 1
    return Span(start.start, at)


def _only(source: Source, place: Place, function: Function, parameter: str) -> tuple[Edit, ...]:
    if isinstance(function, cst.Lambda):
        whole = source.span(place, function)
        start = whole.start + len("lambda") if whole else 0
        return (Edit(Span(start, _next(source.text, start, ":")), f" {parameter}"),)
    name = source.span(place, function.name)
    opening = _next(source.text, name.end, "(") if name else 0
    return (insert(_next(source.text, opening, ")"), parameter),)


def _next(text: str, at: int, char: str) -> int:
    """The first `char` from `at` on that stands in no comment; only white space and separators are passed."""
    while text[at] != char:
        at = text.index("\n", at) if text[at] == "#" else at + 1
    return at
