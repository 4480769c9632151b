"""A plan for a model of a file, as edits of that file; where its shape does not allow it, as code to write by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from remat.finding import Edit, Span, apply_edits
from remat.lint.check import check
from remat.lint.code.source import Source
from remat.lint.layers.classes import classes
from remat.lint.layers.sites import sites
from remat.plan.differing import line_edits, one_edit
from remat.plan.hugging_face import by_library, model_on, write_for_library
from remat.plan.loops import by_hand, sentence, write_loops
from remat.plan.owners import bases, imported_at, owners_at
from remat.plan.plan import ByHand, Written
from remat.plan.selective import too_old
from remat.plan.stacks import Code, Elsewhere, Library, Ran, find
from remat.plan.taking_out import (
    is_checkpointed,
    left_over,
    without_checkpoint,
    without_count,
    without_import,
    without_settings,
)
from remat.plan.wrapping import UnfitError

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
    source = Source(text)
    refused = _refused(source, plan, context)
    if refused is not None:
        return refused
    made = model_on(source, place)
    if made is not None:
        return write_for_library(source, made, plan, context)
    code = Code(source, classes(source), sites(source))
    owners = owners_at(code, place)
    if any(base.endswith(_OF_TRANSFORMERS) for owner in owners[:1] for base in bases(code, owner)):
        line = f"model.{_ENABLE}"
        return ByHand("it has transformers' own switch: use it where the model is made", line)
    ran = _ran(code, owners, imported_at(code, place), plan)
    if isinstance(ran, ByHand):
        return ran
    if isinstance(ran, Library):
        return write_for_library(source, by_library(ran), plan, context)
    if plan.way == "none" or is_checkpointed(one for _, one in ran):
        return _anew(code, [one for _, one in ran], place, plan, context)
    return write_loops(source, ran, plan)


def _refused(source: Source, plan: Plan, context: Context) -> ByHand | None:
    if not plan.blocks:
        does = "the code" if plan.way == "none" else "this way"
        return ByHand(f"the probe saw no block that {does} checkpoints")
    if plan.way == "selective" and too_old(context.versions):
        return ByHand("torch before 2.4 has no selective checkpointing: update it first")
    if not source.complete or "\r" in source.text.replace("\r\n", "\n"):
        return ByHand("the file does not parse as it is now", _CALL)
    return None


def _anew(code: Code, ran: list[Ran], place: Place, plan: Plan, context: Context) -> Outcome:
    """Without what checkpoints the blocks now, and then as `plan` says."""
    text = code.source.text
    try:
        bare = without_settings(apply_edits(text, tuple(without_checkpoint(code, ran))))
    except UnfitError as error:
        return ByHand(sentence(error), "x = block(x)" if plan.way == "none" else by_hand(plan))
    if plan.way == "none":
        lists = " and ".join(f"`{one.layers}`" for one in ran)
        for one in ran:
            bare = without_count(bare, one.layers)
        after, what = without_import(bare), f"The blocks of {lists} are called without checkpoint()"
        return Written(line_edits(text, after), what, tuple(left_over(text, after)))
    outcome = _written(bare, place, plan, context)
    if not isinstance(outcome, Written):
        return outcome
    after = apply_edits(bare, outcome.edits)
    notes = (*outcome.notes, *left_over(text, after))
    what = f"{outcome.what}, in place of what checkpointed them before"
    return replace(outcome, edits=line_edits(text, after), what=what, notes=notes)


def _ran(code: Code, owners: list[Klass], imported: str, plan: Plan) -> list[tuple[int, Ran]] | Library | ByHand:
    """Where each list of the plan's blocks is run, by its place there."""
    ran: list[tuple[int, Ran]] = []
    for number, blocks in enumerate(plan.blocks):
        results = [find(code, owner, _path(blocks.path)) for owner in owners]
        seen = [one for one in results if not isinstance(one, Elsewhere)]
        if not seen:
            return _elsewhere(next((r for r in results if isinstance(r, Elsewhere)), None), blocks.path, imported)
        if len({one.owner.name if isinstance(one, Ran) else one.name for one in seen}) > 1:
            return ByHand("several classes of this file run blocks of that name: probe the class that is meant", _CALL)
        if isinstance(seen[0], Library):
            return seen[0]
        ran.append((number, seen[0]))
    return ran


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
