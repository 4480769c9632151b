"""Writes what client and server say to each other in TypeScript, from the Python side, so that both ends agree."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import sys
import typing
from pathlib import Path
from types import ModuleType, UnionType

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "server"))

from remat import protocol  # noqa: E402  (found by the line above)
from remat.lsp.requests import camel  # noqa: E402
from remat.probe import messages  # noqa: E402

FILES = {
    ROOT / "extension" / "protocol.ts": (protocol, "What Remat adds to LSP."),
    ROOT / "extension" / "probe" / "messages.ts": (messages, "What a probe is told and tells."),
}
_BASIC = {str: "string", int: "number", float: "number", bool: "boolean", type(None): "null"}
_WIDEST = 120


def typescript(module: ModuleType, about: str) -> str:
    """One file: the constants and the values of `module`."""
    origin = f"Written by scripts/write_protocol.py from server/{module.__name__.replace('.', '/')}.py."
    rows = [f"/** {about} {origin} */"]
    own = [value for value in vars(module).values() if inspect.isclass(value) and value.__module__ == module.__name__]
    shapes = [value for value in own if dataclasses.is_dataclass(value)]
    foreign = sorted({name for shape in shapes for name in _names(shape) if name not in {s.__name__ for s in shapes}})
    if foreign:
        rows += ["", f'import type {{ {", ".join(foreign)} }} from "./probe/messages";']
    constants = [
        (name, value) for name, value in vars(module).items() if name.isupper() and isinstance(value, str | float)
    ]
    rows += ["", *(f"export const {name} = {json.dumps(value)};" for name, value in constants)] if constants else []
    for shape in shapes:
        rows += ["", *_interface(shape)]
    return "\n".join(rows) + "\n"


def _interface(shape: type) -> list[str]:
    hints = typing.get_type_hints(shape)
    rows = [*_comment(shape), f"export interface {shape.__name__} {{"]
    for field in dataclasses.fields(shape):  # type: ignore[arg-type]  # it is a dataclass
        optional = "?" if field.default is not dataclasses.MISSING else ""
        rows.append(f"  readonly {camel(field.name)}{optional}: {_type(hints[field.name])};")
    return [*rows, "}"]


def _comment(shape: type) -> list[str]:
    text = inspect.getdoc(shape) or ""
    if text.startswith(f"{shape.__name__}("):  # what dataclasses write where nobody did
        return []
    short = f"/** {' '.join(text.split())} */"
    if len(short) <= _WIDEST:
        return [short]
    return ["/**", *(f" * {line}".rstrip() for line in text.splitlines()), " */"]


def _names(shape: type) -> set[str]:
    return {
        name for hint in typing.get_type_hints(shape).values() for name in re.findall(r"\b[A-Z]\w+", _type(hint))
    } - {"Readonly", "Record"}


def _type(hint: object) -> str:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return " | ".join(f'"{value}"' for value in arguments)
    if origin in {typing.Union, UnionType}:
        return " | ".join(map(_type, arguments))
    if origin is tuple:
        inner = _type(arguments[0])
        return f"readonly ({inner})[]" if " " in inner else f"readonly {inner}[]"
    if origin is dict:
        return f"Readonly<Record<string, {_type(arguments[1])}>>"
    return _BASIC.get(hint) or hint.__name__  # type: ignore[call-overload,no-any-return,attr-defined]  # a class of ours


if __name__ == "__main__":
    for path, (source, about) in FILES.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(typescript(source, about), encoding="utf-8")
