"""Loops over lists of layers: which list, and whether a layer is called plainly or handed to checkpoint."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

import libcst as cst

from remat.lint.code.loop_targets import loop_targets
from remat.lint.code.syntax import children, dotted, walk
from remat.lint.layers.classes import ABOUT_CHECKPOINTING
from remat.lint.layers.positions import assigned
from remat.lint.layers.training_paths import runs_in_training

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from remat.lint.code.names import Environment, Scope
    from remat.lint.code.parsed import Parsed
    from remat.lint.code.source import Place, Source
    from remat.lint.layers.sites import Sites

_LOOKED_AT = frozenset({"isinstance", "hasattr", "getattr", "setattr", "type", "len", "id", "print", "str", "repr"})
_NO_RUN = frozenset(
    [
        "to",
        "cuda",
        "cpu",
        "train",
        "eval",
        "requires_grad_",
        "parameters",
        "named_parameters",
        "modules",
        "named_modules",
        "children",
        "state_dict",
        "load_state_dict",
        "apply",
        "half",
        "float",
        "bfloat16",
        "register_forward_hook",
        "append",
    ]
)


class LayerLoop(NamedTuple):
    """What one `for` does with the elements of one list. `layers` as written: `self.blocks`, `model.layers`.

    A tuple, since each edit puts all of a file's loops into their new places.
    """

    layers: str
    container: cst.BaseExpression  # the node that stands for the list
    taken: cst.Slice | None  # of `self.blocks[1:]`
    alone: bool  # not zipped with others, nor run beside another list in this loop
    loop: cst.For
    place: Place
    scope: Scope | None
    indexes: frozenset[str]  # names that count its elements
    plain: tuple[cst.Call, ...]
    checkpointed: tuple[cst.Call, ...]
    unclear: bool  # an element goes where it cannot be followed

    @property
    def function(self) -> cst.FunctionDef | None:
        above = self.place.parsed.ancestors(self.loop)
        return next((a for a in above if isinstance(a, cst.FunctionDef)), None)


@dataclass(slots=True)
class _Uses:
    """What a loop's body does with one list's elements."""

    container: cst.BaseExpression
    taken: cst.Slice | None = None
    zipped: bool = False
    plain: list[cst.Call] = field(default_factory=list)
    checkpointed: list[cst.Call] = field(default_factory=list)
    unclear: bool = False


@dataclass(frozen=True, slots=True)
class _Known:
    """The loops of a piece, and what they were read with."""

    module: Environment
    klass: Environment
    wrappers: frozenset[str]
    loops: tuple[LayerLoop, ...]


_known: WeakKeyDictionary[Parsed, _Known] = WeakKeyDictionary()  # an edit changes one piece: the others' loops stay


def layer_loops(source: Source, place: Place, sites: Sites) -> list[LayerLoop]:
    """Every loop over a list whose elements its body runs, in source order."""
    known = _known.get(place.parsed)
    same = known is not None and known.module is source.module and known.klass is place.names
    if known is None or not same or known.wrappers != sites.wrappers:
        loops = (
            found
            for loop, scope in place.parsed.nodes.get(cst.For, ())
            if isinstance(loop, cst.For)
            for found in _Reader(place, loop, scope, sites).read()
        )
        known = _known[place.parsed] = _Known(source.module, place.names, sites.wrappers, tuple(loops))
    return [loop._replace(place=place) for loop in known.loops]


def counters(loop: cst.For) -> Iterator[str]:
    """The names that count: `i` of `for i, layer in enumerate(…)` and of `for i in range(…)`."""
    function = loop.iter.func if isinstance(loop.iter, cst.Call) else None
    if not isinstance(function, cst.Name):
        return
    first = loop.target.elements[0].value if isinstance(loop.target, cst.Tuple) else loop.target
    if function.value in {"enumerate", "range"} and isinstance(first, cst.Name):
        yield first.value


def sliced(iterable: cst.BaseExpression) -> tuple[cst.BaseExpression, cst.Slice | None]:
    """`self.layers` and the slice of `self.layers[1:]`."""
    if isinstance(iterable, cst.Subscript) and len(iterable.slice) == 1:
        index = iterable.slice[0].slice
        if isinstance(index, cst.Slice):
            return iterable.value, index
    return iterable, None


class _Reader:
    """Reads one loop. It lives as long as that takes."""

    def __init__(self, place: Place, loop: cst.For, scope: Scope | None, is_site: Callable[[cst.Call], bool]) -> None:
        self.place, self.loop, self.scope, self.is_site = place, loop, scope, is_site
        self.uses: dict[str, _Uses] = {}
        self.names: dict[str, str] = {}  # loop variables, and other names of theirs -> list
        self.closures: dict[str, set[str]] = {}  # local functions that run elements -> lists
        self.indexes = frozenset(counters(loop))

    def read(self) -> Iterator[LayerLoop]:
        for name, iterable, zipped in loop_targets(self.loop.target, self.loop.iter):
            container, taken = sliced(iterable)
            container = self._meant(container)
            if layers := ".".join(dotted(container)):
                self.names[name] = layers
                self.uses[layers] = _Uses(container, taken, zipped)
        if not self.names and not self.indexes:
            return
        self._aliases()
        self._scan(self.loop.body, inside=False)
        ran = {layers: u for layers, u in self.uses.items() if u.plain or u.checkpointed}
        for layers, u in ran.items():
            u.unclear = u.unclear or (not u.checkpointed and not all(map(self._runs_in_training, u.plain)))
            yield LayerLoop(
                layers, u.container, u.taken, len(ran) == 1 and not u.zipped, self.loop, self.place, self.scope,
                self.indexes, tuple(u.plain), tuple(u.checkpointed), u.unclear,
            )  # fmt: skip

    def _meant(self, container: cst.BaseExpression) -> cst.BaseExpression:
        """`self.blocks` for `blocks` after `blocks = self.blocks`."""
        made = assigned(container, self.scope) if isinstance(container, cst.Name) else None
        return made if isinstance(made, cst.Attribute) else container

    def _element(self, node: cst.CSTNode) -> str | None:
        """The list that `node` is an element of, or the bound forward of one."""
        if isinstance(node, cst.Attribute) and node.attr.value in {"forward", "__call__"}:
            node = node.value
        if isinstance(node, cst.Name):
            return self.names.get(node.value)
        if isinstance(node, cst.Subscript) and len(node.slice) == 1:
            index = node.slice[0].slice
            if isinstance(index, cst.Index) and isinstance(index.value, cst.Name) and index.value.value in self.indexes:
                container = self._meant(node.value)
                if layers := ".".join(dotted(container)):
                    self.uses.setdefault(layers, _Uses(container))
                return layers or None
        return None

    def _aliases(self) -> None:
        """`block = self.blocks[i]`, and functions made in the loop that run an element."""
        for node in walk(self.loop.body):
            if isinstance(node, cst.Assign) and len(node.targets) == 1 and isinstance(node.targets[0].target, cst.Name):
                name = node.targets[0].target.value
                if layers := self._element(node.value):
                    self.names.setdefault(name, layers)
                elif isinstance(node.value, cst.Lambda) or _makes_callable(node.value):
                    self.closures.setdefault(name, set()).update(self._mentioned(node.value))
            elif isinstance(node, cst.FunctionDef):
                self.closures.setdefault(node.name.value, set()).update(self._mentioned(node.body))

    def _mentioned(self, *tops: cst.CSTNode) -> set[str]:
        found = {self._element(n) for n in walk(*tops)}
        names = {n.value for n in walk(*tops) if isinstance(n, cst.Name)} & self.closures.keys()
        return {layers for layers in found if layers} | {x for n in names for x in self.closures[n]}

    def _scan(self, node: cst.CSTNode, *, inside: bool) -> None:
        """Note what each call below `node` does with elements. `inside` a nested function it may run anywhere."""
        stack = [(node, inside)]
        while stack:
            at, inside = stack.pop()
            inside = inside or isinstance(at, cst.FunctionDef | cst.Lambda)
            if isinstance(at, cst.Call):
                if self.is_site(at):
                    for layers in sorted(self._mentioned(*at.args)):
                        self.uses[layers].checkpointed.append(at)
                    continue
                self._called(at, inside=inside)
            stack.extend((child, inside) for child in reversed(children(at)))

    def _called(self, call: cst.Call, *, inside: bool) -> None:
        layers = self._element(call.func)
        if layers:
            use = self.uses[layers]
            if inside or _told(call):
                use.unclear = True
            else:
                use.plain.append(call)
        elif isinstance(call.func, cst.Attribute) and call.func.attr.value not in _NO_RUN:
            below: cst.CSTNode = call.func
            while isinstance(below, cst.Attribute):
                below = below.value
                if owner := self._element(below):
                    self.uses[owner].unclear = True
        if not (isinstance(call.func, cst.Name) and call.func.value in _LOOKED_AT):
            for arg in call.args:
                if given := self._element(arg.value):
                    self.uses[given].unclear = True

    def _runs_in_training(self, call: cst.Call) -> bool:
        return runs_in_training(self.place, call, self.loop)


def _told(call: cst.Call) -> bool:
    """Whether the layer itself is told about checkpointing."""
    return any(a.keyword is not None and ABOUT_CHECKPOINTING.search(a.keyword.value) for a in call.args)


def _makes_callable(value: cst.BaseExpression) -> bool:
    return isinstance(value, cst.Call) and dotted(value.func)[-1:] in (["partial"], ["create_custom_forward"])
