"""Every kind of failure that is known, and how text is recognised as one."""

from __future__ import annotations

import re

from remat.diagnose.signature import Facts, Role, Seen, Signature
from remat.diagnose.signatures import (
    activation_checkpointing,
    autograd,
    code,
    compiling,
    cuda,
    data,
    ddp,
    distributed,
    environment,
    host_memory,
    libraries,
    memory,
    nccl,
    precision,
    process,
    rendezvous,
    state,
    storage,
)

FAMILIES = (
    activation_checkpointing, autograd, code, compiling, cuda, data, ddp, distributed, environment, host_memory,
    libraries, memory, nccl, precision, process, rendezvous, state, storage,
)  # fmt: skip
SIGNATURES: tuple[Signature, ...] = tuple(signature for family in FAMILIES for signature in family.SIGNATURES)
KINDS: dict[str, Signature] = {signature.id: signature for signature in SIGNATURES}
PATTERNS: dict[str, re.Pattern[str]] = {s.pattern: re.compile(s.pattern, re.MULTILINE) for s in SIGNATURES if s.pattern}
BARE: tuple[Signature, ...] = tuple(s for s in SIGNATURES if s.bare)
BARE_WORDS: tuple[str, ...] = tuple(dict.fromkeys(word for s in BARE for word in s.words))
_NUMBERED = re.compile(r"^(\D+)\d$")


def match(signature: Signature, text: str) -> Facts | None:
    """The facts that `text` gives this kind, None where it is not of this kind. Groups `name2` … serve as `name`."""
    if not any(word in text for word in signature.words):
        return None
    found = PATTERNS[signature.pattern].search(text)
    if found is None:
        return None
    facts = dict(signature.extra)
    for name, value in found.groupdict().items():
        if value is not None:
            numbered = _NUMBERED.match(name)
            facts[numbered[1] if numbered else name] = value
    return facts


def bare(text: str) -> list[tuple[str, Facts]]:
    """The kinds that a line outside a traceback proves."""
    found = ((signature, match(signature, text)) for signature in BARE)
    told = ((s.id, s.read(Seen(facts, text, "", {}))) for s, facts in found if facts is not None)
    return [(identity, facts) for identity, facts in told if facts is not None]


__all__ = ["BARE", "BARE_WORDS", "FAMILIES", "KINDS", "SIGNATURES", "Role", "bare", "match"]
