"""Reads the comment `# remat: probe(batch=4, seq=2048, …)`: what a user says of how a model is trained."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from argparse import Namespace
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import reduce
from typing import TYPE_CHECKING, TypeVar

from remat.probe.built import FactMissingError
from remat.probe.messages import Location
from remat.probe.target.statements import holds_training

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_START = re.compile(r"#\s*remat:\s*probe\b\s*")
_DTYPES = ("fp32", "fp16", "bf16")
_SPELLINGS = {
    "float32": "fp32", "float": "fp32", "float16": "fp16", "half": "fp16", "bfloat16": "bf16",
}  # fmt: skip
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Spec:
    """What the comment says. `model`, `inputs` and `loss` are expressions, to be evaluated in the file.

    `args`: the command line of a script, for what it reads of it. `config`: the file that a configuration is read from.
    `names`: a mapping of names of the file to what they stand for, where it works them out from data.
    `call`: the method that a step calls, where that is not forward.
    """

    line: int = 0
    batch: int | None = None
    seq: int | None = None
    image: tuple[int, ...] | None = None
    dtype: str | None = None
    autocast: str | None = None
    optimizer: str | None = None
    model: str | None = None
    inputs: str | None = None
    loss: str | None = None
    args: str | None = None
    config: str | None = None
    names: str | None = None
    call: str | None = None


NOTHING = Spec()


def specs(text: str, path: str) -> list[Spec]:
    """Return every such comment of a file, in order; those one below the other are one, in which the lowest has the
    last word. Raises FactMissingError where one can't be understood.
    """
    lines = text.splitlines()
    found: list[Spec] = []
    for line, call in _comments(text):
        spec = _read(line, call, Location(path, line))
        if found and all(row.lstrip().startswith("#") for row in lines[found[-1].line - 1 : line - 1]):
            spec = _filled(spec, found.pop())
        found.append(spec)
    return found


def _filled(spec: Spec, other: Spec) -> Spec:
    """With what only the other says; of names, all that both give."""
    missing = {f.name: getattr(other, f.name) for f in fields(spec) if getattr(spec, f.name) is None}
    if spec.names is not None and other.names is not None:
        missing["names"] = f"{{**({other.names}), **({spec.names})}}"
    return replace(spec, **missing)


def spec_of(text: str, path: str, node: ast.ClassDef | ast.FunctionDef | None) -> Spec:
    """Return the comment above or inside the definition, else the first that stands in no definition."""
    found = specs(text, path)
    tree = ast.parse(text)
    owned = {spec.line: owner.name for owner in _makers(tree) for spec in found if _belongs(spec, owner, text)}
    name = node.name if node is not None else None
    mine = [spec for spec in found if owned.get(spec.line) == name]
    common = [spec for spec in found if spec.line not in owned]
    return reduce(_filled, mine) if mine else next(iter(common), NOTHING)


def given_names(text: str, path: Path) -> dict[str, object]:
    """Return what comments of a file say that its names stand for, as far as that can be told without the file."""
    given: dict[str, object] = {}
    for names in (spec.names for spec in specs(text, str(path)) if spec.names is not None):
        with suppress(NameError):
            given |= eval(compile(names, str(path), "eval"), {"Namespace": Namespace})  # noqa: S307  (for us)
    return given


def owner(text: str, spec: Spec) -> str | None:
    """Return the name of the definition that the comment stands above or inside of."""
    return next((node.name for node in _makers(ast.parse(text)) if _belongs(spec, node, text)), None)


def _makers(tree: ast.Module) -> Iterator[ast.ClassDef | ast.FunctionDef]:
    """What a comment may be about: a class, or a function that makes a model, not one that trains it."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) or (isinstance(node, ast.FunctionDef) and not holds_training(node)):
            yield node


def _belongs(spec: Spec, node: ast.ClassDef | ast.FunctionDef, text: str) -> bool:
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    if first <= spec.line <= (node.end_lineno or first):
        return True
    between = text.splitlines()[spec.line : first - 1]
    return spec.line < first and all(line.lstrip().startswith("#") for line in between)


def _comments(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text after `probe` of each comment; one whose parentheses are open goes on below."""
    pending: tuple[int, str] | None = None
    last = 0
    for line, comment in _comment_tokens(text):
        if pending is not None:
            if line == last + 1 and not _closed(pending[1]) and not _START.match(comment):
                pending, last = (pending[0], f"{pending[1]}\n{comment.lstrip('#')}"), line
                continue
            yield pending
            pending = None
        if match := _START.match(comment):
            pending, last = (line, comment[match.end() :].strip()), line
    if pending is not None:
        yield pending


def _comment_tokens(text: str) -> Iterator[tuple[int, str]]:
    if "remat" not in text:
        return
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string
    except (tokenize.TokenError, SyntaxError):
        return  # reading the file itself will say what is wrong with it


def _closed(call: str) -> bool:
    return call.count("(") <= call.count(")")


def _read(line: int, call: str, place: Location) -> Spec:
    arguments = _arguments(call, place)
    known = set(Spec.__dataclass_fields__) - {"line"}
    for name in arguments:
        if name not in known:
            raise FactMissingError(
                f"`{name}=` in the probe comment is no option", f"options are {', '.join(sorted(known))}", place
            )
    return Spec(
        line=line,
        batch=_literal(arguments, "batch", int, place),
        seq=_literal(arguments, "seq", int, place),
        image=_image(arguments, place),
        dtype=_dtype(arguments, "dtype", place),
        autocast=_dtype(arguments, "autocast", place),
        optimizer=_literal(arguments, "optimizer", str, place),
        model=_expression(arguments, "model"),
        inputs=_expression(arguments, "inputs"),
        loss=_expression(arguments, "loss"),
        args=_literal(arguments, "args", str, place),
        config=_literal(arguments, "config", str, place),
        names=_expression(arguments, "names"),
        call=_literal(arguments, "call", str, place),
    )


def _arguments(call: str, place: Location) -> dict[str, ast.expr]:
    try:
        tree = ast.parse(f"probe{' '.join(call.split())}", mode="eval").body
    except SyntaxError as error:
        raise _unread(f"{error.msg}: {call}", place) from error
    if not isinstance(tree, ast.Call):
        raise _unread("it has no parentheses", place)
    if tree.args or any(keyword.arg is None for keyword in tree.keywords):
        raise _unread("only keyword arguments have a meaning", place)
    return {keyword.arg: keyword.value for keyword in tree.keywords if keyword.arg is not None}


def _unread(why: str, place: Location) -> FactMissingError:
    how = 'write it like a call: # remat: probe(batch=4, seq=2048, dtype="bf16", optimizer="adamw")'
    return FactMissingError(f"the probe comment can't be read ({why})", how, place)


def _literal(arguments: Mapping[str, ast.expr], name: str, kind: type[T], place: Location) -> T | None:
    if name not in arguments:
        return None
    node = arguments[name]
    value = node.value if isinstance(node, ast.Constant) else None
    if type(value) is not kind or (isinstance(value, int) and value < 1):
        wanted = "a number above zero" if kind is int else "a text in quotes"
        raise FactMissingError(f"`{name}=` in the probe comment is {ast.unparse(node)}", f"give {wanted}", place)
    return value


def _image(arguments: Mapping[str, ast.expr], place: Location) -> tuple[int, ...] | None:
    if not isinstance(arguments.get("image"), ast.Tuple):
        side = _literal(arguments, "image", int, place)
        return None if side is None else (side, side)
    sides = ast.literal_eval(arguments["image"])
    if not all(type(side) is int and side > 0 for side in sides):
        raise FactMissingError(
            f"`image=` in the probe comment is {sides}",
            "give the sides in pixels: image=224 or image=(256, 128)",
            place,
        )
    return tuple(sides)


def _dtype(arguments: Mapping[str, ast.expr], name: str, place: Location) -> str | None:
    node = arguments.get(name)
    if node is None:
        return None
    given = node.value if isinstance(node, ast.Constant) else ast.unparse(node).removeprefix("torch.")
    value = _SPELLINGS.get(str(given), str(given))
    if value not in _DTYPES:
        raise FactMissingError(
            f"`{name}={ast.unparse(node)}` in the probe comment is no dtype", f"give one of {', '.join(_DTYPES)}", place
        )
    return value


def _expression(arguments: Mapping[str, ast.expr], name: str) -> str | None:
    return ast.unparse(arguments[name]) if name in arguments else None
