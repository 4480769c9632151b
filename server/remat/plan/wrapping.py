"""The edits that checkpoint the blocks of one loop: all of them, every n-th, or the first few."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from remat.finding import Edit, Span
from remat.lint.code.syntax import targets, walk
from remat.lint.edits import indent_at, insert, newline_of
from remat.lint.layers.wrap_call import wrapped
from remat.plan.stacks import statement_of

if TYPE_CHECKING:
    from remat.lint.code.source import Call, Source
    from remat.lint.layers.loops import LayerLoop
    from remat.lint.layers.stacks import Stack

_CACHE = re.compile(r"(?i)(?:^|_)(?:cache|caches|past|presents?|kv)(?:_|$)|past_key")
_RANDOM = re.compile(r"(?<![\w.])(?:random|np\.random|numpy\.random)\.\w+\(")
_NORM = re.compile(r"\b(?:Sync)?BatchNorm\d?d?\(")
_INDEXES = ("i", "index", "block_index", "layer_index")


class UnfitError(Exception):
    """The loop's shape does not allow it; the text says why, as the end of a sentence."""


@dataclass(frozen=True, slots=True)
class Form:
    """How to call: `function(block, x, last)` under `self.training`, and `position`, a test with `{i}` for the index.

    `position`: empty where all blocks are checkpointed.
    """

    function: str
    last: str
    position: str = ""


def wrap_loop(source: Source, stack: Stack, form: Form) -> list[Edit]:
    """Raises UnfitError."""
    loop = stack.loop
    _refuse(source, loop)
    conditions, edits = ["self.training"], list[Edit]()
    if form.position:
        index, edits = _index(source, loop)
        conditions.append(form.position.format(i=index))
    made = wrapped(source, loop, (form.function, form.last), conditions)
    if not made:
        raise UnfitError("the call of the block is not a statement by itself, or has a comment among its arguments")
    return [*edits, *made]


def _refuse(source: Source, loop: LayerLoop) -> None:
    if loop.checkpointed:
        line = source.text.count("\n", 0, _start(source, loop)) + 1
        raise UnfitError(f"the loop on line {line} checkpoints its blocks already, in its own way")
    if loop.unclear or not loop.plain:
        raise UnfitError("the loop does more with a block than call it")
    if len(loop.plain) > 1:
        raise UnfitError("the loop calls a block more than once")
    if loop.taken is not None:
        raise UnfitError("the loop runs a part of the blocks only")
    function = loop.function
    if function is None or next((p.name.value for p in function.params.params), "") != "self":
        raise UnfitError("the loop is not in a method, so that `self.training` cannot be asked")
    if _may_be_another(loop):
        raise UnfitError("what the loop calls is not a block of the list each time")
    _refuse_arguments(loop.plain[0])


def _may_be_another(loop: LayerLoop) -> bool:
    """Whether the name that is called is bound more than once: to a block in one branch, to another in the next."""
    called = loop.plain[0].func
    if not isinstance(called, cst.Name):
        return False
    assigned = (node for node in walk(loop.loop.body) if isinstance(node, cst.Assign))
    bound = [name for node in assigned for one in node.targets for name in targets(one.target)]
    return [*targets(loop.loop.target), *bound].count(called.value) > 1


def _refuse_arguments(call: cst.Call) -> None:
    for argument in call.args:
        if argument.star == "**":
            raise UnfitError("keywords that are unpacked with `**` could be taken for those of checkpoint()")
        named = [argument.keyword.value] if argument.keyword is not None else []
        named += [node.value for node in walk(argument.value) if isinstance(node, cst.Name)]
        for name in named:
            if _CACHE.search(name):
                raise UnfitError(f"`{name}` looks like a cache, which a block that runs twice would fill twice")


def _start(source: Source, loop: LayerLoop) -> int:
    span = source.span(loop.place, loop.loop)
    return span.start if span else 0


def _index(source: Source, loop: LayerLoop) -> tuple[str, list[Edit]]:
    """The name that counts the blocks from 0, and the edits that bring it in."""
    iterable, target = loop.loop.iter, loop.loop.target
    counted = isinstance(iterable, cst.Call) and isinstance(iterable.func, cst.Name)
    through = iterable.args[0].value if isinstance(iterable, cst.Call) and len(iterable.args) == 1 else None
    if counted and loop.indexes and through is not None and (_is_function(iterable, "range") or _in_order(through)):
        return min(loop.indexes), []
    if not _in_order(iterable):
        raise UnfitError("the loop does not count the blocks from 0 in the order of their list")
    words = _words(source, loop)
    name = next((one for one in _INDEXES if one not in words), None)
    first, over = source.span(loop.place, target), source.span(loop.place, iterable)
    if name is None or first is None or over is None or iterable.lpar:
        raise UnfitError("the loop has no name that counts the blocks")
    unpacked = isinstance(target, cst.Tuple) and not target.lpar
    before = insert(first.start, f"{name}, (" if unpacked else f"{name}, ")
    if isinstance(target, cst.Tuple) and target.lpar:
        before = insert(source.text.rindex("(", 0, first.start + 1), f"{name}, ")
    inside = [insert(first.end, ")")] if unpacked else []
    return name, [before, *inside, insert(over.start, "enumerate("), insert(over.end, ")")]


def _in_order(iterable: cst.BaseExpression) -> bool:
    """A list itself, or lists side by side."""
    return isinstance(iterable, cst.Name | cst.Attribute) or _is_function(iterable, "zip")


def _is_function(node: cst.CSTNode, name: str) -> bool:
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value == name


def _words(source: Source, loop: LayerLoop) -> set[str]:
    """Every word of the method."""
    span = source.span(loop.place, loop.function) if loop.function is not None else None
    return set(re.findall(r"\w+", source.text[span.start : span.end])) if span else set()


def wrap_sequence(source: Source, call: Call, layers: str, form: Form) -> list[Edit]:
    """`x = self.blocks(x)` as a loop that checkpoints each block. Raises UnfitError."""
    line = statement_of(call.place, call.node)
    assign = line.body[0] if line is not None else None
    span = source.span(call.place, line) if line is not None else None
    whole = isinstance(assign, cst.Assign) and assign.value is call.node and len(assign.targets) == 1
    names = list(targets(assign.targets[0].target)) if isinstance(assign, cst.Assign) else []
    one = len(call.node.args) == 1 and call.node.args[0].keyword is None and not call.node.args[0].star
    if not whole or len(names) != 1 or not one or span is None:
        raise UnfitError(f"`{layers}` is called inside of another expression")
    given = source.span(call.place, call.node.args[0].value)
    if given is None or "\n" in source.text[span.start : span.end]:
        raise UnfitError(f"the call of `{layers}` goes over several lines")
    return [Edit(span, _as_loop(source.text, span, names[0], source.text[given.start : given.end], layers, form))]


def _as_loop(text: str, span: Span, name: str, given: str, layers: str, form: Form) -> str:
    indent, newline = indent_at(text, span.start), newline_of(text, span.start)
    step = "\t" if indent.endswith("\t") else "    "
    test = " and ".join(filter(None, ("self.training", form.position.format(i="i"))))
    head = f"for i, block in enumerate({layers}):" if form.position else f"for block in {layers}:"
    first = [] if given == name else [f"{name} = {given}"]
    rows = [
        *first,
        head,
        f"{step}if {test}:",
        f"{step}{step}{name} = {form.function}(block, {name}, {form.last})",
        f"{step}else:",
        f"{step}{step}{name} = block({name})",
    ]
    return f"{newline}{indent}".join(rows)


def doubts(stack: Stack) -> list[str]:
    """What running its blocks twice may change. Raises UnfitError where that makes gradients wrong."""
    notes = []
    for klass in stack.held:
        if found := _RANDOM.search(klass.text):
            raise UnfitError(
                f"`{klass.name}` draws random numbers with `{found[0]}…)`, which checkpoint() does not draw again alike"
            )
        if _NORM.search(klass.text):
            notes.append(
                f"`{klass.name}` has batch normalisation: its running statistics are updated twice a step, once more "
                "when the block runs again"
            )
    return notes
