"""Which imported thing a name means. A piece knows its own scopes; what lies around it comes as environments.

A name may mean several things (an import under `try`, a conditional assignment), so meanings are sets. `UNKNOWN` among
them says that something else was bound to the name too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import libcst as cst

from remat.lint.code.syntax import children, dotted, parameters, string_value, targets

Meanings = frozenset[str]
Environment = Mapping[str, Meanings]  # a bound name of a module or class body -> what it may stand for
Value = str | cst.CSTNode | None  # an import's full name, an assigned expression or definition, or something unknown
Bindings = dict[str, list[Value]]

NOTHING: Meanings = frozenset()
UNKNOWN = "?"
PARTIAL = "partial of "  # "partial of torch.utils.checkpoint.checkpoint"
_PARTIALS = frozenset({"functools.partial", "functools.partialmethod"})
_IMPORT_MODULE = "importlib.import_module"
_HOPS = 4  # a = b; b = c; …: more is no style anybody has
_FOLLOWED_EACH = 8  # assignments followed per name and hop: `x = x.y` a thousand times must not take 1000⁴ steps
_BOUND_EACH = 64  # values looked at per name: one bound more often has no meaning to rely on
_FOLLOWED = (cst.Name, cst.Attribute, cst.IfExp, cst.BooleanOperation, cst.Call)
_STAR_EXPORTS = {"torch.utils.checkpoint": ("checkpoint", "checkpoint_sequential")}


class Scope:
    """A function, lambda or whole class inside a piece."""

    __slots__ = ("_bindings", "attributes", "node", "parent")

    def __init__(
        self,
        node: cst.FunctionDef | cst.Lambda | cst.ClassDef | None,
        parent: Scope | None,
        bindings: Bindings | None = None,
    ) -> None:
        self.node, self.parent = node, parent
        self._bindings = bindings
        self.attributes: Bindings = {}  # what the methods of this class assign to attributes of `self`

    @property
    def bindings(self) -> Bindings:
        if self._bindings is None:
            params = parameters(self.node) if isinstance(self.node, cst.FunctionDef | cst.Lambda) else []
            self._bindings = bindings_of([self.node.body] if self.node else [], (p.name.value for p in params))
        return self._bindings

    @property
    def enclosing_class(self) -> Scope | None:
        """The scope of the class around, itself included; IN_CLASS in a piece that is cut from one."""
        at: Scope | None = self
        while at is not None and at is not IN_CLASS and not isinstance(at.node, cst.ClassDef):
            at = at.parent
        return at


IN_CLASS = Scope(None, None)  # the body of the class that a piece is cut from; its names come as an environment


def meanings(
    expression: cst.CSTNode, scope: Scope | None, module: Environment, klass: Environment, hops: int = _HOPS
) -> Meanings:
    """Every dotted name `expression` may stand for, seen from `scope`; empty where nothing imported is meant."""
    if isinstance(expression, cst.IfExp | cst.BooleanOperation):
        left, right = _alternatives(expression)
        return meanings(left, scope, module, klass, hops) | meanings(right, scope, module, klass, hops)
    if isinstance(expression, cst.Call):
        return _called(expression, scope, module, klass, hops) if expression.args else frozenset({UNKNOWN})
    parts = dotted(expression)
    if not parts:
        return NOTHING
    if parts[0] == "self" and len(parts) > 1:
        return _join(_attribute(parts[1], scope, module, klass, hops), parts[2:])
    at = scope
    while at is not None:
        if at is IN_CLASS:
            if scope is IN_CLASS and parts[0] in klass:
                return _join(klass[parts[0]], parts[1:])
        elif (at is scope or not isinstance(at.node, cst.ClassDef)) and (bound := at.bindings.get(parts[0])):
            return _join(_bound_meanings(bound, at, module, klass, hops), parts[1:])
        at = at.parent
    return _join(module.get(parts[0], NOTHING), parts[1:])


def _called(call: cst.Call, scope: Scope | None, module: Environment, klass: Environment, hops: int) -> Meanings:
    """What a call gives: a partial, a static method, a module that is imported by its name."""
    first = call.args[0].value
    if is_static_method(call):
        return meanings(first, scope, module, klass, hops)
    last = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
    if isinstance(call.func, cst.Name) or last.startswith(("partial", "import_")):
        called = meanings(call.func, scope, module, klass, hops)
        if called & _PARTIALS:
            return _partial_of(meanings(first, scope, module, klass, hops))
        name = string_value(first) if called == {_IMPORT_MODULE} and len(call.args) == 1 else None
        if name and not name.startswith("."):
            return frozenset({name})
    return frozenset({UNKNOWN})


def is_static_method(value: Value) -> bool:
    """Whether it is `staticmethod(f)`, which `self.f` gives back as it is."""
    return (
        isinstance(value, cst.Call)
        and isinstance(value.func, cst.Name)
        and value.func.value == "staticmethod"
        and len(value.args) == 1
    )


def _attribute(name: str, scope: Scope | None, module: Environment, klass: Environment, hops: int) -> Meanings:
    """What `self.<name>` may stand for, from the assignments in the class around."""
    owner = scope and scope.enclosing_class
    if owner is not None and owner is not IN_CLASS:
        bound = [*owner.attributes.get(f"self.{name}", ()), *filter(is_static_method, owner.bindings.get(name, ()))]
        return _bound_meanings(bound, owner, module, klass, hops and hops - 1)
    return klass.get(f"self.{name}", NOTHING)


def _bound_meanings(bound: list[Value], scope: Scope, module: Environment, klass: Environment, hops: int) -> Meanings:
    names: set[str] = {UNKNOWN} if len(bound) > _BOUND_EACH else set()
    followed = 0
    for value in bound[:_BOUND_EACH]:
        if isinstance(value, str):
            names.add(value)
        elif isinstance(value, _FOLLOWED) and hops and followed < _FOLLOWED_EACH:
            followed += 1
            names |= meanings(value, scope, module, klass, hops - 1)
        else:
            names.add(UNKNOWN)
    return frozenset(names)


def _alternatives(node: cst.IfExp | cst.BooleanOperation) -> tuple[cst.BaseExpression, cst.BaseExpression]:
    return (node.body, node.orelse) if isinstance(node, cst.IfExp) else (node.left, node.right)


def _partial_of(names: Meanings) -> Meanings:
    return frozenset(n if n == UNKNOWN else PARTIAL + n for n in names)


def _join(names: Meanings, rest: list[str]) -> Meanings:
    return frozenset(n if n == UNKNOWN else ".".join([n, *rest]) for n in names) if rest and names else names


def environment(bindings: Iterable[Bindings], around: Environment) -> dict[str, Meanings]:
    """What the names bound in a module or class body mean, from the bindings of all its pieces.

    Names that mean nothing imported are left out, so that typing a new local name leaves the environment equal.
    """
    merged: Bindings = {}
    for part in bindings:
        for name, values in part.items():
            merged.setdefault(name, []).extend(values)
    for name in [name for name, values in merged.items() if any(map(is_static_method, values))]:
        merged.setdefault(f"self.{name}", []).extend(merged[name])
    body = Scope(None, None, merged)
    known = {n: _bound_meanings(values, body, around, {}, _HOPS) for n, values in merged.items()}
    return {n: m for n, m in known.items() if m - {UNKNOWN}}


def bindings_of(body: Iterable[cst.CSTNode], params: Iterable[str] = ()) -> Bindings:
    """What each name is bound to in this body, nested scopes left out."""
    out: Bindings = {name: [None] for name in params}
    stack = list(body)
    while stack:
        node = stack.pop()
        kind = type(node)
        if binds := _BINDS.get(kind):
            for name, value in binds(node):
                out.setdefault(name, []).append(value)
        if kind in _HOLDS_STATEMENTS:
            stack += [child for child in children(node) if type(child) in _LOOKED_AT]
    return out


def attributes_assigned(node: cst.Assign | cst.AnnAssign) -> Iterable[tuple[str, Value]]:
    """What an assignment binds attributes of `self` to, under names such as `self.attention`."""
    places = [t.target for t in node.targets] if isinstance(node, cst.Assign) else [node.target]
    for place in places:
        parts = dotted(place)
        if len(parts) == 2 and parts[0] == "self" and node.value is not None:
            yield f"self.{parts[1]}", node.value


def _imports(node: cst.Import) -> Iterable[tuple[str, Value]]:
    return [_imported(alias) for alias in node.names]


def _defines(node: cst.FunctionDef | cst.ClassDef) -> Iterable[tuple[str, Value]]:
    return [(node.name.value, node)]


def _assigns(node: cst.Assign) -> Iterable[tuple[str, Value]]:
    return [(name, _whole(t.target, node.value)) for t in node.targets for name in targets(t.target)]


def _annotates(node: cst.AnnAssign | cst.NamedExpr) -> Iterable[tuple[str, Value]]:
    return [(name, _whole(node.target, node.value)) for name in targets(node.target)]


def _rebinds(node: cst.AugAssign | cst.For) -> Iterable[tuple[str, Value]]:
    return [(name, None) for name in targets(node.target)]


def _names(node: cst.AsName) -> Iterable[tuple[str, Value]]:
    return [(name, None) for name in targets(node.name)]


def _whole(target: cst.CSTNode, value: cst.CSTNode | None) -> cst.CSTNode | None:
    """`value` where it is assigned as a whole, not unpacked."""
    return value if isinstance(target, cst.Name) else None


def _imported(alias: cst.ImportAlias) -> tuple[str, Value]:
    full = dotted(alias.name)
    if alias.asname and isinstance(alias.asname.name, cst.Name):
        return alias.asname.name.value, ".".join(full)
    return full[0], full[0]


def _imported_from(node: cst.ImportFrom) -> Iterable[tuple[str, Value]]:
    base = "." * len(node.relative) + (".".join(dotted(node.module)) if node.module else "")
    if isinstance(node.names, cst.ImportStar):
        return [(name, f"{base}.{name}") for name in _STAR_EXPORTS.get(base, ())]
    return [
        (
            alias.asname.name.value
            if alias.asname and isinstance(alias.asname.name, cst.Name)
            else ".".join(dotted(alias.name)),
            f"{base}.{'.'.join(dotted(alias.name))}",
        )
        for alias in node.names
    ]


# A table by type: libcst's classes are ABCs, and isinstance on each node of a file cost more than all else here.
_BINDS: Mapping[type[cst.CSTNode], Callable[..., Iterable[tuple[str, Value]]]] = {  # type: ignore[explicit-any]
    cst.Import: _imports,
    cst.ImportFrom: _imported_from,
    cst.FunctionDef: _defines,
    cst.ClassDef: _defines,
    cst.Assign: _assigns,
    cst.AnnAssign: _annotates,
    cst.NamedExpr: _annotates,
    cst.AugAssign: _rebinds,
    cst.For: _rebinds,
    cst.AsName: _names,
}
# Expressions are not searched, but for the tests in which people write `:=`.
_HOLDS_STATEMENTS = frozenset(
    {
        cst.Module,
        cst.IndentedBlock,
        cst.SimpleStatementLine,
        cst.SimpleStatementSuite,
        cst.If,
        cst.Else,
        cst.For,
        cst.While,
        cst.Try,
        cst.TryStar,
        cst.ExceptHandler,
        cst.ExceptStarHandler,
        cst.Finally,
        cst.With,
        cst.WithItem,
        cst.Match,
        cst.MatchCase,
        cst.Comparison,
        cst.BooleanOperation,
        cst.UnaryOperation,
    }
)
_LOOKED_AT = _HOLDS_STATEMENTS | frozenset(_BINDS)
