"""Where each node lies in the text: one counting codegen pass, done only when a rule has a hit.

libcst's own position provider costs ten times as much, and is paid before any rule has looked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import libcst as cst


class _Mark:
    """The context libcst opens around a node's code without its surrounding white space and parentheses."""

    __slots__ = ("counter", "first", "last", "node", "start")

    def __init__(
        self, counter: _Counter, node: cst.CSTNode, first: cst.CSTNode | None, last: cst.CSTNode | None
    ) -> None:
        self.counter, self.node, self.first, self.last = counter, node, first, last
        self.start = 0

    def __enter__(self) -> None:
        self.start = self.counter.offset

    def __exit__(self, raised: type[BaseException] | None, *_: object) -> None:
        if raised is not None:
            return  # the ends were never reached
        spans = self.counter.spans
        start = self.start if self.first is None else spans[id(self.first)][0]
        end = self.counter.offset if self.last is None else spans[id(self.last)][1]
        spans[id(self.node)] = (start, end)


class _Counter:
    """Stands in for libcst's CodegenState: counts characters instead of collecting them."""

    def __init__(self, module: cst.Module) -> None:
        self.default_indent, self.default_newline = module.default_indent, module.default_newline
        self.indent: list[str] = []
        self.stack: list[int] = []
        self.spans: dict[int, tuple[int, int]] = {}
        self.offset = 0
        self.provider = None  # libcst reads this and `tokens`
        self.tokens: list[str] = []

    def increase_indent(self, value: str) -> None:
        self.indent.append(value)

    def decrease_indent(self) -> None:
        self.indent.pop()

    def add_indent_tokens(self) -> None:
        self.offset += sum(map(len, self.indent))

    def add_token(self, value: str) -> None:
        self.offset += len(value)

    def before_codegen(self, _: cst.CSTNode) -> None:
        self.stack.append(self.offset)

    def after_codegen(self, node: cst.CSTNode) -> None:
        self.spans.setdefault(id(node), (self.stack.pop(), self.offset))

    def pop_trailing_newline(self) -> None:
        pass

    def record_syntactic_position(
        self,
        node: cst.CSTNode,
        *,
        start_node: cst.CSTNode | None = None,
        end_node: cst.CSTNode | None = None,
    ) -> _Mark:
        return _Mark(self, node, start_node, end_node)


def spans_of(module: cst.Module, length: int) -> dict[int, tuple[int, int]]:
    """Node id to (start, end) in a module whose text has `length` characters.

    Empty where libcst loses characters (a form feed before code), since every later position would be wrong, and where
    an expression is nested too deeply for its recursive code generator.
    """
    counter = _Counter(module)
    try:
        module._codegen(counter)  # type: ignore[arg-type]  # noqa: SLF001 - duck-typed on purpose, see above
    except RecursionError:
        return {}
    # The counter sees no tokens, so libcst adds one line end of its own.
    return counter.spans if counter.offset - len(module.default_newline) == length else {}
