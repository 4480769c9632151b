"""Writes extension/protocol.ts from remat.protocol, so that both ends of a request agree."""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "server"))

from remat import protocol  # noqa: E402  (found by the line above)

TARGET = ROOT / "extension" / "protocol.ts"
_BASIC = {"str": "string", "int": "number", "float": "number", "bool": "boolean", "None": "null"}


def typescript() -> str:
    """The whole file."""
    rows = ["/** What Remat adds to LSP. Written by scripts/write_protocol.py from server/remat/protocol.py. */"]
    for name, value in vars(protocol).items():
        if isinstance(value, str) and name.isupper():
            rows += ["", f'export const {name} = "{value}";']
        elif inspect.isclass(value) and dataclasses.is_dataclass(value):
            rows += ["", *_interface(value)]
    return "\n".join(rows) + "\n"


def _interface(shape: type) -> list[str]:
    text = " ".join(inspect.getdoc(shape).split())  # type: ignore[union-attr]  # each has one
    rows = [f"/** {text} */", f"export interface {shape.__name__} {{"]
    if len(rows[0]) > 120:  # as biome would leave it
        rows[0] = "\n".join(
            ["/**", *(f" * {line}" if line else " *" for line in inspect.getdoc(shape).splitlines()), " */"]
        )  # type: ignore[union-attr]
    for field in dataclasses.fields(shape):
        optional = "?" if field.default is not dataclasses.MISSING else ""
        rows.append(f"  readonly {camel(field.name)}{optional}: {_type(str(field.type))};")
    return [*rows, "}"]


def camel(name: str) -> str:
    return re.sub("_([a-z])", lambda match: match[1].upper(), name)


def _type(annotation: str) -> str:
    many = re.fullmatch(r"tuple\[(\w+), \.\.\.\]", annotation)
    if many is not None:
        return f"readonly {_BASIC.get(many[1], many[1])}[]"
    return " | ".join(_BASIC.get(part, part) for part in annotation.split(" | "))


if __name__ == "__main__":
    TARGET.write_text(typescript(), encoding="utf-8")
