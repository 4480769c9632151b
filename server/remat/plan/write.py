"""A plan for a model of a file, as edits of that file; where its shape does not allow it, as code to write by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from remat.finding import Edit, Span, apply_edits
from remat.lint.check import check
from remat.lint.code.source import Source
from remat.lint.layers.classes import classes
from remat.lint.layers.sites import sites
from remat.plan.differing import one_edit
from remat.plan.hugging_face import by_library, model_on, write_for_library
from remat.plan.loops import write_loops
from remat.plan.owners import bases, imported_at, owners_at
from remat.plan.plan import ByHand, Written
from remat.plan.selective import too_old
from remat.plan.stacks import Code, Elsewhere, Library, Ran, find

if TYPE_CHECKING:
    from remat.lint.layers.classes import Klass
    from remat.lint.rule import Context
    from remat.plan.plan import Outcome, Place, Plan

_BOM = "\ufeff"
_MOST_FIXES = 3
_OF_TRANSFORMERS = "PreTrainedModel"
_ENABLE = 'gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})'
_CALL = "x = checkpoint(block, x, use_reentrant=False)"


def write(text: str, place: Place, plan: Plan, context: Context) -> Outcome:
    """The edits that make the model at `place` checkpoint as `plan` says. `text`: the file as it is now."""
    outcome = _written(text.removeprefix(_BOM), place, plan, context)
    if not isinstance(outcome, Written):
        return outcome
    shift = len(text) - len(text.removeprefix(_BOM))
    edits = tuple(Edit(Span(e.span.start + shift, e.span.end + shift), e.text) for e in outcome.edits)
    return _checked(text, replace(outcome, edits=edits), context)


def _written(text: str, place: Place, plan: Plan, context: Context) -> Outcome:
    if plan.way == "none":
        return ByHand("Remat adds checkpointing and does not take it out", "call the blocks without checkpoint()")
    if not plan.blocks:
        return ByHand("the probe saw no block that this way checkpoints")
    if plan.way == "selective" and too_old(context.versions):
        return ByHand("torch before 2.4 has no selective checkpointing: update it first")
    source = Source(text)
    if not source.complete or "\r" in text.replace("\r\n", "\n"):
        return ByHand("the file does not parse as it is now", _CALL)
    made = model_on(source, place)
    if made is not None:
        return write_for_library(source, made, plan, context)
    code = Code(source, classes(source), sites(source))
    owners = owners_at(code, place)
    if any(base.endswith(_OF_TRANSFORMERS) for owner in owners[:1] for base in bases(code, owner)):
        line = f"model.{_ENABLE}"
        return ByHand("it has transformers' own switch: use it where the model is made", line)
    return _in_classes(code, owners, imported_at(code, place), plan, context)


def _in_classes(code: Code, owners: list[Klass], imported: str, plan: Plan, context: Context) -> Outcome:
    ran: list[tuple[int, Ran]] = []
    for number, blocks in enumerate(plan.blocks):
        results = [find(code, owner, _path(blocks.path)) for owner in owners]
        seen = [one for one in results if not isinstance(one, Elsewhere)]
        if not seen:
            return _elsewhere(next((r for r in results if isinstance(r, Elsewhere)), None), blocks.path, imported)
        if len({one.owner.name if isinstance(one, Ran) else one.name for one in seen}) > 1:
            return ByHand("several classes of this file run blocks of that name: probe the class that is meant", _CALL)
        if isinstance(seen[0], Library):
            return write_for_library(code.source, by_library(seen[0]), plan, context)
        ran.append((number, seen[0]))
    return write_loops(code.source, ran, plan)


def _path(pattern: str) -> list[str]:
    """`["decoder", "layers"]` for `decoder.layers.*`."""
    parts = pattern.split(".")
    return parts[:-1] if parts[-1] == "*" else parts


def _elsewhere(found: Elsewhere | None, path: str, imported: str) -> ByHand:
    name = found.made if found is not None and found.made else imported
    module, _, last = name.rpartition(".")
    if module:
        why = f"`{last}` of `{module}` runs `{path}`: probe that class in its own file, and apply the plan there"
    elif found is not None:
        why = f"`{found.seen}` does not run `{path}` in a loop: another class does, or it runs them one by one"
    else:
        why = f"no class of this file runs `{path}`"
    return ByHand(why, _CALL)


def _checked(text: str, outcome: Written, context: Context) -> Outcome:
    """With the linter's own repairs of what the plan brings about; by hand where a finding would stay."""
    before = {(f.rule, f.message) for f in check(text, context)}
    result, fixed = apply_edits(text, outcome.edits), False
    for _ in range(_MOST_FIXES):
        new = [f for f in check(result, context) if (f.rule, f.message) not in before]
        if not new:
            return replace(outcome, edits=(one_edit(text, result),)) if fixed else outcome
        fix = next((f.fix for f in new if f.fix), None)
        if fix is None:
            return ByHand(f"the result would be wrong: {new[0].message} ({new[0].rule})", _CALL)
        result, fixed = fix.apply(result), True
        outcome = replace(outcome, notes=(*outcome.notes, f"{fix.title}, as {new[0].rule} asks"))
    return ByHand("Remat's rules would find fault with the result", _CALL)
