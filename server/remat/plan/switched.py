"""A switch of transformers' that the code turns already: turned otherwise, or taken out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from remat.finding import Edit, Span
from remat.lint.code.syntax import dotted
from remat.plan.plan import ByHand, Written
from remat.plan.stacks import statement_of
from remat.plan.trainer_arguments import switch_off, switched_on

if TYPE_CHECKING:
    from remat.lint.code.source import Call, Source
    from remat.lint.kv_cache.training_script import Script
    from remat.plan.hugging_face import Made
    from remat.plan.plan import Outcome


def change_switch(
    source: Source, script: Script, made: Made, switches: list[Call], line: str, policies: list[Edit]
) -> Outcome:
    """`switches`: the calls of the file that switch checkpointing on. `line`: what stands in place of one; empty where
    nothing is to be checkpointed.
    """
    flag = switched_on(script)
    if not switches:
        return switch_off(source, *flag) if flag else ByHand("Nothing in this file switches checkpointing on")
    (first, *more), number = switches, _number(source, switches[0])
    if more or flag is not None:
        return ByHand(f"Line {number} switches checkpointing on, and so does another: leave one of them", line)
    statement, span = statement_of(first.place, first.node), source.span(first.place, first.node)
    if statement is None or span is None or not _is_alone(first, statement, made):
        why = f"Line {number} switches checkpointing on already, under a condition or for another model"
        return ByHand(why, line)
    if line:
        what = f"Line {number + _added(policies, span)} switches checkpointing on in another way"
        return Written((*policies, Edit(span, line)), what)
    text = source.text
    start, end = text.rfind("\n", 0, span.start) + 1, text.find("\n", span.end)
    gone = Edit(Span(start, len(text) if end < 0 else end + 1), "")
    return Written((gone,), f"Line {number}, which switched checkpointing on, is gone")


def _is_alone(call: Call, statement: cst.SimpleStatementLine, made: Made) -> bool:
    """A statement of its own, for this model, in the same block as what makes it and not the only one there."""
    only = statement.body[0] if len(statement.body) == 1 else None
    value = only.value if isinstance(only, cst.Expr) else None
    receiver = call.node.func.value if isinstance(call.node.func, cst.Attribute) else None
    if value is not call.node or receiver is None or ".".join(dotted(receiver)) != made.name:
        return False
    around = [next(call.place.parsed.ancestors(statement), None), _block(made.call)]
    if call.place is not made.call.place:  # pieces of the top level
        return all(isinstance(one, cst.Module) for one in around)
    return around[0] is around[1] and (isinstance(around[0], cst.Module) or _holds_more(around[0]))


def _block(call: Call) -> cst.CSTNode | None:
    statement = statement_of(call.place, call.node)
    return next(call.place.parsed.ancestors(statement), None) if statement is not None else None


def _holds_more(block: cst.CSTNode | None) -> bool:
    return isinstance(block, cst.IndentedBlock) and len(block.body) > 1


def _number(source: Source, call: Call) -> int:
    span = source.span(call.place, call.node)
    return source.text.count("\n", 0, span.start) + 1 if span else 0


def _added(edits: list[Edit], above: Span) -> int:
    return sum(edit.text.count("\n") for edit in edits if edit.span.start <= above.start)
