"""Takes torch's checkpoint() out of loops again: each block is called with what was handed over for it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from remat.finding import Edit, Span
from remat.lint.checkpointing import OWN_KEYWORDS, Form
from remat.lint.edits import indent_at
from remat.lint.layers.stacks import stacks
from remat.plan.stacks import statement_of
from remat.plan.wrapping import UnfitError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from remat.lint.code.source import Source
    from remat.lint.layers.loops import LayerLoop
    from remat.lint.layers.sites import Sites
    from remat.plan.stacks import Code, Ran

_OWN = r"checkpoint_(?:every|first)(?:_n)*"
_SETTING = re.compile(rf"(?m)^[ \t]+({_OWN}) = \d+  # (?:one in )?so many of self\.[^\n]*\n(?:[ \t]*\r?\n)?")
_IMPORT = re.compile(r"(?m)^from torch\.utils\.checkpoint import (?:\w+ as )?(\w+)[ \t]*\r?\n")
_CONTEXTS = re.compile(r"context_fn=([A-Za-z_][\w.]*)")
_DEFINITION = re.compile(r"(?m)^([ \t]*)(?:@|class[ \t]|(?:async[ \t]+)?def[ \t])")
_WORD = re.compile(r"[A-Za-z_][\w.]*")
_ASKED = frozenset({"self.training", "torch.is_grad_enabled", "and", "not", "len"})
_BRANCHES = cst.If | cst.IfExp | cst.While | cst.For | cst.With | cst.Try | cst.FunctionDef | cst.Lambda


def is_checkpointed(ran: Iterable[Ran]) -> bool:
    return any(stack.loop.checkpointed for one in ran for stack in one.loops)


def without_checkpoint(code: Code, ran: Iterable[Ran]) -> list[Edit]:
    """Edits after which no loop of these classes checkpoints its blocks. Raises UnfitError where that is not seen to be
    right, and where the file checkpoints elsewhere, too.
    """
    listed = list(ran)
    all_stacks = (stack for one in listed for stack in stacks(code.source, one.owner, code.known, code.sites))
    loops = {id(stack.loop.loop): stack.loop for stack in all_stacks}
    found = [(loop, site) for loop in loops.values() for site in loop.checkpointed]
    if not found:
        raise UnfitError(f"no loop over `{listed[0].layers}` hands its blocks to checkpoint()")
    edits = [_taken_out(code.source, code.sites, loop, site) for loop, site in found]
    inside = {id(site) for _, site in found}
    for use in code.sites.torch.values():
        if id(use.call.node) not in inside:
            span = code.source.span(use.call.place, use.call.node)
            line = code.source.text.count("\n", 0, span.start if span else 0) + 1
            raise UnfitError(f"line {line} checkpoints, too, outside of that loop: take it out first")
    if code.sites.installing:
        raise UnfitError("the file wraps modules for checkpointing, too: take that out first")
    return edits


def without_settings(text: str) -> str:
    """Without the numbers that an earlier plan of Remat's put into a class, where nothing asks for them any more."""
    return _without_unused(text, _SETTING)


def without_import(text: str) -> str:
    """Without a line that imports nothing but checkpoint(), where nothing calls it any more."""
    return _without_unused(text, _IMPORT)


def without_count(text: str, layers: str) -> str:
    """With `for block in self.blocks:` for a loop that counts its blocks and asks for their number no more."""
    loop = re.compile(rf"(?m)^([ \t]*)for (?P<count>(\w+), )\w+ in (?P<all>enumerate\({re.escape(layers)}\)):")
    for match in reversed(list(loop.finditer(text))):
        if re.search(rf"\b{match[3]}\b", _rest_of_function(text, match.end(), match[1])) is None:
            head = text[match.start() : match.start("count")] + text[match.end("count") : match.start("all")]
            text = f"{text[: match.start()]}{head}{layers}{text[match.end('all') :]}"
    return text


def _rest_of_function(text: str, at: int, indent: str) -> str:
    """What may use a name that is bound at `at`: up to the next definition that stands further out."""
    for match in _DEFINITION.finditer(text, at):
        if len(match[1].expandtabs()) < len(indent.expandtabs()):
            return text[at : match.start()]
    return text[at:]


def left_over(before: str, after: str) -> Iterator[str]:
    """Notes about policies of selective checkpointing that no call is given any more."""
    for name in sorted(set(_CONTEXTS.findall(before)) - set(_CONTEXTS.findall(after))):
        yield f"`{name}` is still there, with its policy; nothing in that loop uses it any more"


def _without_unused(text: str, line: re.Pattern[str]) -> str:
    for match in reversed(list(line.finditer(text))):
        rest = text[: match.start()] + text[match.end() :]
        if re.search(rf"(?<!utils\.)\b{match[1]}\b", rest) is None:
            text = rest
    return text


def _taken_out(source: Source, sites: Sites, loop: LayerLoop, site: cst.Call) -> Edit:
    use = sites.torch.get(id(site))
    if use is None or use.form is not Form.CALL or use.sequential or not use.certain:
        raise UnfitError("the loop checkpoints with a function of its own")
    line, called = statement_of(loop.place, site), source.span(loop.place, site)
    whole = source.span(loop.place, line) if line is not None else None
    if line is None or called is None or whole is None:
        raise UnfitError("the call of checkpoint() is not a statement by itself")
    plain = source.text[whole.start : called.start] + _plain(source, loop, site) + source.text[called.end : whole.end]
    around = list(_around(loop, site))
    if not around:
        return Edit(whole, plain)
    if len(around) > 1 or not isinstance(around[0], cst.If):
        raise UnfitError("the loop checkpoints under several conditions")
    _refuse_switches(source, loop, around[0].test)
    return _without_branch(source, loop, around[0], line, plain)


def _plain(source: Source, loop: LayerLoop, site: cst.Call) -> str:
    """`block(x, mask)` of `checkpoint(block, x, mask, use_reentrant=False)`."""
    first, *others = site.args
    if first.keyword is not None or first.star or not isinstance(first.value, cst.Name | cst.Subscript | cst.Attribute):
        raise UnfitError("what checkpoint() is given is not the block itself")
    if any(argument.star == "**" for argument in others):
        raise UnfitError("keywords that are unpacked with `**` may be the block's or checkpoint()'s")
    kept = [a for a in others if a.keyword is None or a.keyword.value not in OWN_KEYWORDS]
    texts = [_text(source, loop, first.value), *(_text(source, loop, a).rstrip(", \r\n\t") for a in kept)]
    if any("#" in text for text in texts):
        raise UnfitError("the call of checkpoint() has a comment among its arguments")
    return f"{texts[0]}({', '.join(texts[1:])})"


def _text(source: Source, loop: LayerLoop, node: cst.CSTNode) -> str:
    span = source.span(loop.place, node)
    if span is None:
        raise UnfitError("the call of checkpoint() cannot be read")
    return source.text[span.start : span.end]


def _around(loop: LayerLoop, site: cst.Call) -> Iterator[cst.CSTNode]:
    """What decides inside of the loop whether the call is made."""
    for above in loop.place.parsed.ancestors(site):
        if above is loop.loop:
            return
        if isinstance(above, _BRANCHES):
            yield above


def _refuse_switches(source: Source, loop: LayerLoop, test: cst.BaseExpression) -> None:
    """A switch of the model's own is the place to turn checkpointing off, and other code may ask it."""
    known = {*_ASKED, *loop.indexes, loop.layers}
    for word in _WORD.findall(_text(source, loop, test)):
        if word not in known and not re.fullmatch(rf"self\.{_OWN}", word):
            raise UnfitError(f"the loop asks `{word}` whether to checkpoint: that is the switch to turn")


def _without_branch(
    source: Source, loop: LayerLoop, both: cst.If, line: cst.SimpleStatementLine, statement: str
) -> Edit:
    """The other branch, where it does the same without checkpoint(), in place of both."""
    other, text = both.orelse, source.text
    bodies = [both.body, other.body] if isinstance(other, cst.Else) else []
    statements = [body.body[0] for body in bodies if isinstance(body, cst.IndentedBlock) and len(body.body) == 1]
    plain = next((one for one in statements if one is not line), None)
    if len(statements) != 2 or plain is None or line not in statements:
        raise UnfitError("the loop does something else where it does not checkpoint")
    spans = [source.span(loop.place, node) for node in (plain, line, both)]
    here, there, whole = spans
    if here is None or there is None or whole is None or _bare(text[here.start : here.end]) != _bare(statement):
        raise UnfitError("the loop calls a block otherwise where it does not checkpoint")
    kept = text[here.start : _line_end(text, here.end)]
    kept = kept.replace(f"\n{indent_at(text, here.start)}", f"\n{indent_at(text, whole.start)}")
    return Edit(Span(whole.start, _line_end(text, max(here.end, there.end))), kept)


def _line_end(text: str, at: int) -> int:
    """A comment behind a statement belongs to it."""
    end = text.find("\n", at)
    end = len(text) if end < 0 else end
    return end - 1 if text[end - 1 : end] == "\r" else end


def _bare(statement: str) -> str:
    return re.sub(r"#[^\n]*|\s+", "", statement).replace(",)", ")")
