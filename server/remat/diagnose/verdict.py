"""One step's decision: the kind of failure, the rank it began on or none, and the lines that decided."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from remat.diagnose.signatures import KINDS

if TYPE_CHECKING:
    from remat.diagnose.recognise import Found
    from remat.diagnose.report import Place
    from remat.diagnose.signature import Facts, Signature


@dataclass(frozen=True, slots=True)
class Verdict:
    """
    `involved`: ranks that failed in the same way, or first as well: nobody's collateral.
    `left_alone`: whether ranks that only waited are known to be victims. `step`: the rule that decided, in words.
    """

    kind: Signature
    facts: Facts
    lines: tuple[int, ...]
    step: str
    rank: int | None = None
    place: Place | None = None
    said: str = ""
    involved: frozenset[int] = frozenset()
    left_alone: bool = True
    truncated: bool = False
    also: tuple[Found, ...] = field(default=())


def verdict(
    identity: str, facts: Facts, lines: tuple[int, ...], step: str, rank: int | None = None, *, left_alone: bool = True
) -> Verdict:
    """A decision that no traceback made."""
    return Verdict(KINDS[identity], {**KINDS[identity].extra, **facts}, lines, step, rank, left_alone=left_alone)
