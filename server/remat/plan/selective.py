"""Selective checkpointing as code: a policy that keeps what the probe's variant kept, and what hands it over."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from remat.lint.code.split import Role
from remat.lint.edits import insert, newline_of
from remat.lint.imports import import_edit, spelling
from remat.plan.naming import imported
from remat.probe.messages import SELECTIVE_KEEPS

if TYPE_CHECKING:
    from remat.finding import Edit
    from remat.lint.code.source import Source
    from remat.versions import Versions

MODULE = "torch.utils.checkpoint"
_POLICY, _CONTEXTS = "CheckpointPolicy", "create_selective_checkpoint_contexts"
_DEFINITIONS = """\
# What a checkpointed block keeps for backward: products and attention. All else is computed again.
{kept} = {{
{operators}
}}


def {keep}(ctx, op, *args, **kwargs):
    return {policy}.MUST_SAVE if op in {kept} else {policy}.PREFER_RECOMPUTE


def {contexts}():
    return {create}({keep})


"""


def too_old(versions: Versions) -> bool:
    return versions.at_least("torch", "2.4") is False


def policy(source: Source, start: int, *more: str) -> tuple[str, tuple[str, ...], list[Edit]]:
    """The name of a function for `context_fn`, how the file spells `more` of torch's checkpoint module, and the edits
    that bring all of it in: definitions above the statement that holds the offset `start`.
    """
    (policy_name, create, *others), edits = imported(source, MODULE, _POLICY, _CONTEXTS, *more)
    torch = spelling(source, "torch", "ops")
    if torch is None:
        added = import_edit(source, "torch")
        torch, edits = "torch.ops", [*([added] if added is not None else []), *edits]
    names = ("KEPT_FOR_BACKWARD", "keep_products", "selective_contexts")
    at = _above(source, start)
    newline = newline_of(source.text, at)
    written = _definitions(names, torch, policy_name, create).replace("\n", newline)
    if written.strip() in source.text:  # an earlier plan's
        return names[-1], tuple(others), edits
    free = tuple(_free(source, name) for name in names)
    text = _definitions(free, torch, policy_name, create).replace("\n", newline)
    return free[-1], tuple(others), [*edits, insert(at, text)]


def _definitions(names: tuple[str, ...], torch: str, policy_name: str, create: str) -> str:
    kept, keep, contexts = names
    operators = "\n".join(f"    {torch}.aten.{name}," for name in SELECTIVE_KEEPS)
    return _DEFINITIONS.format(
        kept=kept, operators=operators, keep=keep, contexts=contexts, policy=policy_name, create=create
    )


def _free(source: Source, name: str) -> str:
    number = 1
    while re.search(rf"\b{name}{number if number > 1 else ''}\b", source.text):
        number += 1
    return f"{name}{number if number > 1 else ''}"


def _above(source: Source, start: int) -> int:
    """Where the top level's statement around `start` begins, comments right above it included."""
    text = source.text
    at = max((p.start for p in source.pieces if p.role is not Role.MEMBER and p.start <= start), default=0)
    while (line := text.rfind("\n", 0, max(at - 1, 0)) + 1) < at and text[line:at].startswith("#"):
        at = line
    return at
