"""Reads pickles of plain data and nothing else: no name is looked up, nothing is called, whatever the file says."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, TypeAlias, cast

if TYPE_CHECKING:
    from collections.abc import Callable

Plain: TypeAlias = "bool | int | float | str | list[Plain] | tuple[Plain, ...] | dict[str, Plain] | None"


class NotPlainError(ValueError):
    """The pickle holds more than texts, numbers, lists, tuples and dictionaries of texts; or it is cut off."""


def loads(data: bytes) -> Plain:
    """Raises NotPlainError. Protocols 2 to 5; time and memory grow with the size of the file only."""
    machine = _Machine(data)
    try:
        _run(machine)
        (value,) = machine.stack
    except (IndexError, KeyError, TypeError, AttributeError, struct.error, UnicodeDecodeError, ValueError) as error:
        if isinstance(error, NotPlainError):
            raise
        raise NotPlainError(f"expected a pickle of plain data; it is cut off or damaged at {machine.at}") from error
    return value


def _run(machine: _Machine) -> None:
    """Most of a snapshot is texts, references and small numbers: these are taken here, far faster than by table."""
    data, stack, memo, operations = machine.data, machine.stack, machine.memo, _OPERATIONS
    at = 0
    while (code := data[at]) != _STOP:
        if code == _MEMOIZE:
            memo[len(memo)] = stack[-1]
            at += 1
        elif code == _GET:
            stack.append(memo[data[at + 1]])
            at += 2
        elif code == _LONG_GET:
            stack.append(memo[data[at + 1] | data[at + 2] << 8 | data[at + 3] << 16 | data[at + 4] << 24])
            at += 5
        elif code == _TEXT:
            end = at + 2 + data[at + 1]
            stack.append(str(data[at + 2 : end], "utf-8", "surrogatepass"))
            at = end
        elif code == _BYTE:
            stack.append(data[at + 1])
            at += 2
        elif code == _SHORT:
            stack.append(data[at + 1] | data[at + 2] << 8)
            at += 3
        else:
            operation = operations.get(code)
            if operation is None:
                raise NotPlainError(f"expected plain data, got the pickle instruction {code:#04x} at {at}")
            machine.at = at + 1
            operation(machine)
            at = machine.at


class _Machine:
    """The stack that a pickle's instructions work on."""

    __slots__ = ("at", "data", "marks", "memo", "stack")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.stack: list[Plain] = []
        self.marks: list[int] = []
        self.memo: dict[int, Plain] = {}

    def take(self, count: int) -> bytes:
        part = self.data[self.at : self.at + count]
        if len(part) != count:
            raise IndexError(count)
        self.at += count
        return part

    def number(self, form: str) -> int:
        return int(struct.unpack(form, self.take(struct.calcsize(form)))[0])

    def since_mark(self) -> list[Plain]:
        start = self.marks.pop()
        items = self.stack[start:]
        del self.stack[start:]
        return items

    def push(self, value: Plain) -> None:
        self.stack.append(value)

    def tuple_of(self, count: int) -> None:
        items = tuple(self.stack[len(self.stack) - count :])
        if len(items) != count:
            raise IndexError(count)
        del self.stack[len(self.stack) - count :]
        self.stack.append(items)

    def append(self, items: list[Plain]) -> None:
        to = self.stack[-1]
        if not isinstance(to, list):
            raise TypeError
        to.extend(items)

    def set_items(self, items: list[Plain]) -> None:
        to = self.stack[-1]
        if not isinstance(to, dict):
            raise TypeError
        keys = items[::2]
        if not all(type(key) is str for key in keys):
            raise NotPlainError(f"expected texts as keys of a dictionary, before {self.at}")
        to.update(zip(cast("list[str]", keys), items[1::2], strict=True))

    def long(self) -> int:
        return int.from_bytes(self.take(self.number("<B")), "little", signed=True)

    def text(self, form: str) -> str:
        return str(self.take(self.number(form)), "utf-8", "surrogatepass")


def _pair(machine: _Machine) -> list[Plain]:
    value, key = machine.stack.pop(), machine.stack.pop()
    return [key, value]


_STOP, _MEMOIZE, _GET, _LONG_GET, _TEXT, _BYTE, _SHORT = ord("."), 0x94, ord("h"), ord("j"), 0x8C, ord("K"), ord("M")
_OPERATIONS: dict[int, Callable[[_Machine], object]] = {
    0x80: lambda m: m.take(1),  # protocol
    0x95: lambda m: m.take(8),  # frame
    ord("X"): lambda m: m.push(m.text("<I")),
    ord("q"): lambda m: m.memo.__setitem__(m.number("<B"), m.stack[-1]),
    ord("r"): lambda m: m.memo.__setitem__(m.number("<I"), m.stack[-1]),
    ord("J"): lambda m: m.push(m.number("<i")),
    0x8A: lambda m: m.push(m.long()),
    ord("G"): lambda m: m.push(float(struct.unpack(">d", m.take(8))[0])),
    ord("N"): lambda m: m.push(None),
    0x88: lambda m: m.push(True),  # noqa: FBT003
    0x89: lambda m: m.push(False),  # noqa: FBT003
    ord("("): lambda m: m.marks.append(len(m.stack)),
    ord("]"): lambda m: m.push([]),
    ord("}"): lambda m: m.push({}),
    ord(")"): lambda m: m.push(()),
    0x85: lambda m: m.tuple_of(1),
    0x86: lambda m: m.tuple_of(2),
    0x87: lambda m: m.tuple_of(3),
    ord("t"): lambda m: m.push(tuple(m.since_mark())),
    ord("l"): lambda m: m.push(m.since_mark()),
    ord("a"): lambda m: m.append([m.stack.pop()]),
    ord("e"): lambda m: m.append(m.since_mark()),
    ord("s"): lambda m: m.set_items(_pair(m)),
    ord("u"): lambda m: m.set_items(m.since_mark()),
}
"""by the instruction's byte (CPython's Lib/pickletools.py): the rest of those that plain data needs"""
