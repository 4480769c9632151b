"""Small text edits that keep the user's layout: one argument per line, trailing commas, comments, CRLF, tabs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from remat.finding import Edit, Span

if TYPE_CHECKING:
    from remat.lint.code.source import Call, Place, Source

_TAIL = re.compile(r"(?P<before>(?:[^#,]|#[^\r\n]*)*)(?P<comma>,?)(?P<rest>.*)\Z", re.DOTALL)
_LONE_RETURN = re.compile(r"\r(?!\n)")
_INDENT = re.compile(r"[ \t]*")


def insert(at: int, text: str) -> Edit:
    return Edit(Span(at, at), text)


def replace(source: Source, place: Place, node: cst.CSTNode, text: str) -> tuple[Edit, ...]:
    """`text` in place of `node`; nothing where its position is not known."""
    span = source.span(place, node)
    return (Edit(span, text),) if span else ()


def add_argument(source: Source, call: Call, argument: str) -> tuple[Edit, ...]:
    """`argument` (`name=value`) as the last one of the call, laid out as the others are."""
    whole = source.span(call.place, call.node)
    if whole is None:
        return ()
    end = _closing_parenthesis(source.text, whole)
    args = call.node.args
    if not args:
        return (insert(end, argument),)
    last = source.span(call.place, args[-1])
    if last is None:
        return ()
    if len(args) == 1 and isinstance(args[0].value, cst.GeneratorExp) and not args[0].value.lpar:
        return (insert(last.start, "("), insert(last.end, f"), {argument}"))
    return after_last(source.text, last, end, argument)


def after_last(text: str, last: Span, end: int, item: str) -> tuple[Edit, ...]:
    """`item` after the `last` one of a list that closes at `end`, which may have a trailing comma and comments."""
    tail = _TAIL.match(text, last.end, end)
    comma = last.end + len(tail["before"]) if tail and tail["comma"] else None
    after = last.end if comma is None else comma + 1
    if "\n" in text[after:end] and _starts_its_line(text, last.start):
        return _on_its_own_line(text, last, comma, item)
    if comma is None:
        return (insert(last.end, f", {item}"),)
    closes_here = not text[comma + 1 : end].strip()
    if closes_here and "\n" not in text[comma:end]:
        return (Edit(Span(comma + 1, end), f" {item}"),)
    return (insert(comma + 1, f" {item},"),)


def _on_its_own_line(text: str, last: Span, comma: int | None, argument: str) -> tuple[Edit, ...]:
    after = last.end if comma is None else comma + 1
    line_end = text.index("\n", after)
    if text[line_end - 1] == "\r":
        line_end -= 1
    newline = newline_of(text, line_end)
    line = f"{newline}{indent_at(text, last.start)}{argument}"
    if comma is None:
        return (insert(last.end, ","), insert(line_end, line))
    return (insert(line_end, f"{line},"),)


def _closing_parenthesis(text: str, call: Span) -> int:
    return text.rindex(")", call.start, call.end)


def _starts_its_line(text: str, at: int) -> bool:
    return not text[text.rfind("\n", 0, at) + 1 : at].strip()


def indent_at(text: str, at: int) -> str:
    """The white space that the line holding offset `at` begins with."""
    match = _INDENT.match(text, text.rfind("\n", 0, at) + 1)
    return match[0] if match else ""


def line_feeds(text: str) -> str:
    """`text` with a line feed for each carriage return that ends a line by itself, as Python reads it."""
    return _LONE_RETURN.sub("\n", text) if "\r" in text else text


def newline_of(text: str, at: int) -> str:
    """The line end that stands at or follows offset `at`."""
    end = text.find("\n", at)
    return "\r\n" if end > 0 and text[end - 1] == "\r" else "\n"
