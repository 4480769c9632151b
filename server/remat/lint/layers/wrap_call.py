"""Puts the call of a bare layer loop into the form that another loop of the file checkpoints its layers with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from remat.finding import Edit, Span
from remat.lint.checkpointing import OWN_KEYWORDS, Variant
from remat.lint.code.syntax import dotted, walk
from remat.lint.edits import indent_at, newline_of
from remat.lint.layers.sites import LIBRARY_METHOD

if TYPE_CHECKING:
    from remat.lint.code.source import Place, Source
    from remat.lint.layers.loops import LayerLoop
    from remat.lint.layers.sites import Sites


def wrapped_like(source: Source, plain: LayerLoop, model: LayerLoop, sites: Sites) -> tuple[Edit, ...]:
    """Edits that checkpoint `plain`'s only call the way `model` does; none where that needs a person."""
    if len(plain.plain) != 1 or len(model.checkpointed) != 1:
        return ()
    site = model.checkpointed[0]
    form = _form(source, model, site, sites, keywords=any(a.keyword is not None for a in plain.plain[0].args))
    conditions = _conditions(source, model, site)
    return () if form is None or conditions is None else wrapped(source, plain, form, conditions)


def wrapped(source: Source, plain: LayerLoop, form: tuple[str, str], conditions: list[str]) -> tuple[Edit, ...]:
    """Edits that hand `plain`'s only call to `form` where all `conditions` hold; none where that needs a person.

    `form`: what is called with the layer and its arguments, and the arguments that end the call.
    """
    if len(plain.plain) != 1:
        return ()
    call = plain.plain[0]
    line = next((a for a in plain.place.parsed.ancestors(call) if isinstance(a, cst.SimpleStatementLine)), None)
    span, called = source.span(plain.place, line) if line else None, source.span(plain.place, call)
    layer = _layer(source, plain, call)
    if span is None or called is None or layer is None or len(line.body if line else ()) != 1:
        return ()
    text = source.text
    given = text[_open(text, called, source, plain, call) : called.end - 1].strip().rstrip(",")
    if "#" in given:
        return ()  # a comment would swallow what is put behind it
    first, last = form
    new = f"{first}({', '.join(p for p in (layer, given, last) if p)})"
    statement = text[span.start : called.start] + new + text[called.end : span.end]
    if not conditions:
        return (Edit(called, new),)
    return (Edit(span, _either(text, span, " and ".join(conditions), statement)),)


def _layer(source: Source, plain: LayerLoop, call: cst.Call) -> str | None:
    """`layer` of `layer(x)`, `layer.forward` of `layer.forward(x)`, `self.layers[i]` of `self.layers[i](x)`."""
    if not dotted(call.func) and not isinstance(call.func, cst.Subscript):
        return None
    span = source.span(plain.place, call.func)
    return source.text[span.start : span.end] if span else None


def _open(text: str, called: Span, source: Source, plain: LayerLoop, call: cst.Call) -> int:
    function = source.span(plain.place, call.func)
    return text.index("(", function.end if function else called.start) + 1


def _form(source: Source, model: LayerLoop, site: cst.Call, sites: Sites, *, keywords: bool) -> tuple[str, str] | None:
    """What is called, and the arguments that end the call; None where they mean something only where they stand."""
    function = ".".join(dotted(site.func))
    use = sites.torch.get(id(site))
    if (
        not function
        or any(a.star == "**" for a in site.args)
        or (use is None and not function.endswith(LIBRARY_METHOD))
    ):
        return None
    if not _is_layer(site.args[0].value if site.args else None):
        return None
    if keywords and (use is None or use.variant is not Variant.NON_REENTRANT):
        return None
    scope = model.scope
    first = dotted(site.func)[0]
    if first != "self" and scope is not None and first in scope.bindings:
        return None
    own = [a for a in site.args if a.keyword is not None and a.keyword.value in OWN_KEYWORDS]
    spans = [source.span(model.place, a) for a in own]
    if any(not isinstance(a.value, cst.Name | cst.Attribute) or _local(a.value, model) for a in own) or None in spans:
        return None
    return function, ", ".join(source.text[s.start : s.end].rstrip(", \n") for s in spans if s is not None)


def _is_layer(wrapped: cst.BaseExpression | None) -> bool:
    """Whether the layer itself is handed over, not something made of it."""
    return isinstance(wrapped, cst.Name | cst.Subscript | cst.Attribute)


def _local(expression: cst.CSTNode, model: LayerLoop) -> bool:
    bindings = model.scope.bindings if model.scope is not None else {}
    return any(isinstance(n, cst.Name) and n.value in bindings and n.value != "self" for n in walk(expression))


def _conditions(source: Source, model: LayerLoop, site: cst.Call) -> list[str] | None:
    """The tests under which `model` checkpoints; None where they hang on something local, or are the else of one."""
    found: list[str] = []
    below: cst.CSTNode = site
    for above in model.place.parsed.ancestors(site):
        if above is model.function:
            break
        if isinstance(above, cst.If | cst.IfExp):
            span = source.span(model.place, above.test)
            if below is not above.body or span is None or _local(above.test, model):
                return None
            loose = isinstance(above.test, cst.BooleanOperation) and isinstance(above.test.operator, cst.Or)
            text = source.text[span.start : span.end]
            found.insert(0, f"({text})" if loose or "\n" in text else text)  # spans leave parentheses out
        below = above
    return found


def _either(text: str, line: Span, condition: str, wrapped: str) -> str:
    """The statement under the condition, and as it was in the else."""
    indent, newline = indent_at(text, line.start), newline_of(text, line.start)
    step = "\t" if indent.endswith("\t") else "    "
    old = text[line.start : line.end]
    deeper = [_deeper(s, step) for s in (wrapped, old)]
    return f"if {condition}:{newline}{indent}{step}{deeper[0]}{newline}{indent}else:{newline}{indent}{step}{deeper[1]}"


def _deeper(statement: str, step: str) -> str:
    """Continuation lines moved by one level; lines of a multi-line string never come here: a call holds none."""
    return statement.replace("\n", "\n" + step)


def without_conjunct(source: Source, place: Place, test: cst.BaseExpression) -> tuple[Edit, ...]:
    """Take `test` out of the `… and …` it stands in; nothing where it is the whole condition."""
    above = next(place.parsed.ancestors(test), None)
    if not isinstance(above, cst.BooleanOperation) or not isinstance(above.operator, cst.And):
        return ()
    whole = next((a for a in place.parsed.ancestors(test) if not isinstance(a, cst.BooleanOperation)), None)
    first = above.left is test
    other = above.right if first else above.left
    here, there = source.span(place, test), source.span(place, other)
    if not isinstance(whole, cst.If | cst.IfExp) or here is None or there is None or other.lpar or len(test.lpar) > 1:
        return ()
    start, end = (here.start, here.end)
    if test.lpar:
        start, end = source.text.rindex("(", 0, start), source.text.index(")", end) + 1
    return (Edit(Span(start, there.start), "") if first else Edit(Span(there.end, end), ""),)
