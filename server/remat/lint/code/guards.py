"""Code that is only reached with some library version, or after another form has failed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from remat.lint.code.definitions import definitions
from remat.lint.code.syntax import walk

if TYPE_CHECKING:
    from remat.lint.code.source import At, Source

_ABOUT_VERSIONS = re.compile(
    r"(?i)version|signature|torch_?(?:is_)?(?:gt|ge|lt|le|gte|lte|\d)|use_reentrant|parameters$"
)


def behind_version_guard(source: Source, at: At[cst.CSTNode]) -> bool:
    """Whether an `if` about versions or signatures, or an `except TypeError`, decides that the node runs.

    The `if` may stand around it, or before it and leave the function.
    """
    below = at.node
    for above in at.place.parsed.ancestors(at.node):
        if (
            isinstance(above, cst.If | cst.IfExp)
            and below is not above.test
            and _about_versions(source, above.test, at)
        ):
            return True
        if isinstance(above, cst.ExceptHandler) and _catches(above, "TypeError"):
            return True
        if isinstance(above, cst.IndentedBlock) and any(
            isinstance(s, cst.If) and _leaves(s) and _about_versions(source, s.test, at) for s in _before(above, below)
        ):
            return True
        below = above
    return False


def _before(block: cst.IndentedBlock, statement: cst.CSTNode) -> list[cst.BaseStatement]:
    index = next((i for i, s in enumerate(block.body) if s is statement), 0)
    return list(block.body[:index])


def _leaves(guard: cst.If) -> bool:
    """Whether the body of `guard` ends by leaving."""
    last = guard.body.body[-1] if guard.body.body else None
    while isinstance(last, cst.SimpleStatementLine):
        last = last.body[-1]
    return isinstance(last, cst.Return | cst.Raise | cst.Continue)


def _about_versions(source: Source, test: cst.BaseExpression, at: At[cst.CSTNode]) -> bool:
    """Whether the test, or what a name in it is bound to, speaks of versions or signatures."""
    names = [n for n in walk(test) if isinstance(n, cst.Name)]
    values = (d.node for n in names for d in definitions(source, n, at.scope, at.place))
    return _speaks_of_versions(test) or any(
        _speaks_of_versions(v) for v in values if not isinstance(v, cst.FunctionDef | cst.ClassDef)
    )


def _speaks_of_versions(node: cst.CSTNode) -> bool:
    for part in walk(node):
        name = part.value if isinstance(part, cst.Name | cst.SimpleString) else None
        if name is not None and _ABOUT_VERSIONS.search(name.strip("\"'")):
            return True
    return False


def _catches(handler: cst.ExceptHandler, name: str) -> bool:
    return handler.type is not None and any(isinstance(n, cst.Name) and n.value == name for n in walk(handler.type))
