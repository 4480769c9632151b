"""Code that is only reached with some library version, or after another form has failed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from remat.lint.code.syntax import walk

if TYPE_CHECKING:
    from remat.lint.code.source import Place

_ABOUT_VERSIONS = re.compile(
    r"(?i)version|signature|torch_?(?:is_)?(?:gt|ge|lt|le|gte|lte|\d)|use_reentrant|parameters$"
)


def behind_version_guard(place: Place, node: cst.CSTNode) -> bool:
    """Whether an `if` about versions or signatures, or an `except TypeError`, decides that `node` runs."""
    below = node
    for above in place.parsed.ancestors(node):
        if isinstance(above, cst.If | cst.IfExp) and below is not above.test and _about_versions(above.test):
            return True
        if isinstance(above, cst.ExceptHandler) and _catches(above, "TypeError"):
            return True
        below = above
    return False


def _about_versions(test: cst.BaseExpression) -> bool:
    for node in walk(test):
        name = node.value if isinstance(node, cst.Name | cst.SimpleString) else None
        if name is not None and _ABOUT_VERSIONS.search(name.strip("\"'")):
            return True
    return False


def _catches(handler: cst.ExceptHandler, name: str) -> bool:
    return handler.type is not None and any(isinstance(n, cst.Name) and n.value == name for n in walk(handler.type))
