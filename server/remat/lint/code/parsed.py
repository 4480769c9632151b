"""One piece of a file, parsed: what it says by itself. It depends on its text and role only, so it lives as long."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from remat.lint.code.names import (
    IN_CLASS,
    Bindings,
    Environment,
    Meanings,
    Scope,
    attributes_assigned,
    bindings_of,
    meanings,
)
from remat.lint.code.nesting import nested_too_deeply
from remat.lint.code.spans import spans_of
from remat.lint.code.split import Role
from remat.lint.code.syntax import SCOPES, children

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator

Key = tuple[str, Role]
CallsByName = dict[str, list[tuple[cst.Call, Scope | None, Meanings]]]
LARGEST = 100_000  # characters; libcst needs a second for as many, and no one reads a statement that long
_WRAPPER = "class _:\n"  # a member keeps its indentation, so its strings keep their text
_INDEXED = frozenset({cst.Call, cst.For, cst.FunctionDef, cst.Lambda, cst.ClassDef, cst.Dict, cst.Assign})


@dataclass(frozen=True, slots=True)
class Interest:
    """What the rules look for: a piece with none of the words, which uses none of the targets, is not parsed."""

    words: re.Pattern[str]
    targets: frozenset[str]


class Parsed:
    """A piece's tree with its bindings and the nodes that rules ask for."""

    def __init__(self, text: str, role: Role) -> None:
        text = _without_trailing_lines(text)
        self.prefix = len(_WRAPPER) if role is Role.MEMBER else 0
        self.tree = cst.parse_module(_WRAPPER + text if self.prefix else text)
        self.length = len(text) + self.prefix
        self.names: Bindings = {}  # bound in the module
        self.class_names: Bindings = {}  # bound in the class that this piece is cut from, `self.x` included
        self.nodes: dict[type[cst.CSTNode], list[tuple[cst.CSTNode, Scope | None]]] = defaultdict(list)
        self._resolved: tuple[Environment, Environment, CallsByName] | None = None
        if role is Role.STATEMENT:
            self.names = bindings_of(self.tree.body)
            self._walk(self.tree, None)
        else:
            self._read_class(role)

    def _read_class(self, role: Role) -> None:
        head = self.tree.body[0] if len(self.tree.body) == 1 else None
        if not (isinstance(head, cst.ClassDef) and isinstance(head.body, cst.IndentedBlock)):
            raise ValueError(role)  # an edit glued something else to it
        self.class_names = bindings_of([head.body])
        if role is Role.CLASS:
            self.names = {head.name.value: [head]}
            for node in (*head.decorators, *head.bases, *head.keywords):
                self._walk(node, None)
            self.nodes[cst.ClassDef].append((head, None))
        self._walk(head.body, IN_CLASS)

    def _walk(self, top: cst.CSTNode, scope: Scope | None) -> None:
        stack = [(top, scope)]
        while stack:
            node, scope = stack.pop()
            kind = type(node)
            if kind in _INDEXED:
                self.nodes[kind].append((node, scope))
            if kind in SCOPES:
                assert isinstance(node, cst.FunctionDef | cst.Lambda | cst.ClassDef)  # noqa: S101 - for the type checker
                inner = Scope(node, scope)
                stack.append((node.body, inner))
                stack += [(child, scope) for child in reversed(children(node)) if child is not node.body]
                continue
            if kind is cst.Assign or kind is cst.AnnAssign:
                self._note_attributes(node, scope)
            stack += [(child, scope) for child in reversed(children(node))]

    def _note_attributes(self, node: cst.CSTNode, scope: Scope | None) -> None:
        """Keep what `self.x = …` binds with the class around."""
        owner = scope and scope.enclosing_class
        if owner is not None and isinstance(node, cst.Assign | cst.AnnAssign):
            names = self.class_names if owner is IN_CLASS else owner.attributes
            for name, value in attributes_assigned(node):
                names.setdefault(name, []).append(value)

    def by_name(self, module: Environment, klass: Environment) -> CallsByName:
        """The calls by what they may call, kept while the environments stay the same objects."""
        if self._resolved is None or self._resolved[0] is not module or self._resolved[1] is not klass:
            found: CallsByName = defaultdict(list)
            for node, scope in self.nodes[cst.Call]:
                assert isinstance(node, cst.Call)  # noqa: S101 - for the type checker
                names = meanings(node.func, scope, module, klass)
                for name in names:
                    found[name].append((node, scope, names))
            self._resolved = module, klass, found
        return self._resolved[2]

    @cached_property
    def spans(self) -> dict[int, tuple[int, int]]:
        return spans_of(self.tree, self.length)

    @cached_property
    def parents(self) -> dict[int, cst.CSTNode]:
        """Node id to parent, built when a rule first asks what stands around a hit."""
        found: dict[int, cst.CSTNode] = {}
        stack: list[cst.CSTNode] = [self.tree]
        while stack:
            node = stack.pop()
            for child in children(node):
                found[id(child)] = node
                stack.append(child)
        return found

    def ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """What `node` stands in, innermost first; white space and separators have no ancestors."""
        at = self.parents.get(id(node))
        while at is not None:
            yield at
            at = self.parents.get(id(at))


def _without_trailing_lines(text: str) -> str:
    """`text` up to its last line of code: libcst makes a node of each blank line and comment, ten thousands of them.

    A line with a quote may end a string, and a line after a backslash belongs to the one before: those stay.
    """
    end = len(text)
    while end:
        start = text.rfind("\n", 0, end - 1) + 1
        line = text[start:end].strip(" \t\r\n")
        if (line and not line.startswith("#")) or "'" in line or '"' in line or text[:start].endswith("\\\n"):
            break
        end = start
    return text[:end]


def parse(key: Key) -> Parsed | None:
    """None where the piece is no Python, nested more deeply than Python itself takes, or data rather than code."""
    if len(key[0]) > LARGEST or nested_too_deeply(key[0]):
        return None
    try:
        return Parsed(*key)
    except (cst.ParserSyntaxError, cst.CSTValidationError, ValueError, RecursionError):
        return None
