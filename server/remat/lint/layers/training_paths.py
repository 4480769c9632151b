"""Whether what stands around a node lets it run in training, and leaves checkpointing to others."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from remat.lint.code.gradients import may_switch_off
from remat.lint.code.syntax import string_value, walk
from remat.lint.layers.classes import ABOUT_CHECKPOINTING

if TYPE_CHECKING:
    from remat.lint.code.source import Place

_TRAINING = re.compile(r"training$|is_grad_enabled|requires_grad")


def runs_in_training(place: Place, node: cst.CSTNode, until: cst.CSTNode) -> bool:
    """Whether `node`, below `until`, runs in training with gradients, and no flag about checkpointing decides that."""
    below = node
    for above in place.parsed.ancestors(node):
        if isinstance(above, cst.With) and may_switch_off(*above.items):
            return False
        if isinstance(above, cst.If | cst.IfExp) and below is not above.test:
            holds = below is above.body
            if mentions(ABOUT_CHECKPOINTING, above.test) or _excludes_training(above.test, holds=holds):
                return False
        if above is until:
            break
        below = above
    return True


def _excludes_training(test: cst.BaseExpression, *, holds: bool) -> bool:
    """Whether `test` can come out as `holds` only outside of training."""
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        return _excludes_training(test.expression, holds=not holds)
    if isinstance(test, cst.BooleanOperation):
        parts = [_excludes_training(part, holds=holds) for part in (test.left, test.right)]
        return any(parts) if isinstance(test.operator, cst.And) is holds else all(parts)
    return not holds and mentions(_TRAINING, test)


def mentions(pattern: re.Pattern[str], *tops: cst.CSTNode) -> bool:
    """Whether any name or string below matches."""
    for node in walk(*tops):
        said = node.value if isinstance(node, cst.Name) else string_value(node)
        if said is not None and pattern.search(said):
            return True
    return False
