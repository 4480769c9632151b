"""Evaluates an expression of a user's file where it stands; the names of the function around it, on demand."""

from __future__ import annotations

import ast
import contextlib
from types import SimpleNamespace
from typing import TYPE_CHECKING

from remat.probe.built import FactMissingError
from remat.probe.messages import Location
from remat.probe.target.loading import OnDemand, compiled
from remat.probe.target.packages import read
from remat.probe.target.statements import bound_names, dotted, plan, trains

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from remat.probe.target.loading import File
    from remat.probe.target.statements import Plan

Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.If
_MOST_CALLERS = 5  # a parameter is followed through so many functions


class HandedOverError(FactMissingError, NameError):
    """A parameter of a function of the user's that no call of it tells."""


def evaluate(file: File, expression: str, names: dict[str, object] | None = None) -> object:
    """Evaluate in the file's own namespace, with `names` beside it."""
    namespace = {**vars(file.module), **(names or {})}
    return eval(compile(expression, str(file.path), "eval"), namespace)  # noqa: S307  (what the user wrote for us)


def evaluate_in(file: File, node: ast.expr, scopes: list[Scope], depth: int = 0) -> object:
    """Evaluate an expression that stands inside of `scopes`, the outermost first. Raises what its parts raise.

    `depth`: through how many callers its parameters were followed.
    """
    local = Local(file, scopes, [_plan_before(scope, node) for scope in scopes], depth)
    return local.evaluate(node)


def from_here_on(file: File, scopes: list[Scope], node: ast.expr | None, body: list[ast.stmt]) -> Local:
    """The names where `node` stands, and then those of `body`, of which nothing runs that is not asked for."""
    before = [] if node is None else [_plan_before(scope, node) for scope in scopes]
    first = 0 if node is None else node.lineno
    after = [s for s in _opened(body, node) if s.lineno > first]
    return Local(file, scopes, [*before, plan(ast.Module(after, []))])


def names_at(file: File, scopes: list[Scope], node: ast.expr, tree: ast.Module) -> Local:
    """The names where `node` stands, those of the file's own top among them, each worked out anew."""
    top = plan(ast.Module([s for s in _opened(tree.body, node) if s.lineno < node.lineno and not _holds(s, node)], []))
    return Local(file, scopes, [top, *(_plan_before(scope, node) for scope in scopes)])


class Local:
    """The names of a function that never runs: each is worked out from the statements that bind it."""

    def __init__(self, file: File, scopes: list[Scope], plans: list[Plan], depth: int = 0) -> None:
        self.file = file
        self.depth = depth
        self.functions = {name: scope for scope in scopes for name in _parameters(scope)}
        self.plans = plans
        self.arguments = {name: value for scope in scopes for name, value in _defaults(scope)}
        self.open: dict[int, int] = {}  # what runs now: the line of each statement
        self.done: set[int] = set()
        self.taken: dict[int, Plan] = {}
        self.namespace: dict[str, object] = {**vars(file.module), "__builtins__": self._builtins()}
        for name in [name for plan_ in self.plans for name in plan_.by_name]:
            self.namespace.pop(name, None)  # a global of the same name isn't meant

    def _builtins(self) -> OnDemand:
        return OnDemand(
            self.look_up, {*self.file.plan.by_name, *(name for local in self.plans for name in local.by_name)}
        )

    def prepare(self, node: ast.expr) -> None:
        """Run all that binds or changes what an expression reads: while a statement runs, what follows it has not."""
        bound = {name for local in self.plans for name in local.by_name}
        for name in {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} & bound:
            with contextlib.suppress(KeyError):  # what a branch that isn't taken binds
                self.look_up(name)

    def give(self, name: str, value: object) -> None:
        """Let a name stand for a value, whatever binds it."""
        for local in self.plans:
            local.by_name.pop(name, None)
        self.functions.pop(name, None)
        self.namespace[name] = value

    def give_within(self, name: str, value: object) -> None:
        """The same for `self.model`, which leaves other attributes of `self` unknown."""
        root, *rest = name.split(".")
        for part in reversed(rest):
            value = SimpleNamespace(**{part: value})
        self.give(root, value)

    def evaluate(self, node: ast.expr) -> object:
        code = compile(ast.fix_missing_locations(ast.Expression(node)), str(self.file.path), "eval", dont_inherit=True)
        self.open[id(node)] = node.lineno
        try:
            self.prepare(node)
            return eval(code, self.namespace)  # noqa: S307
        finally:
            del self.open[id(node)]

    def execute(self, statement: ast.stmt) -> None:
        """Run a statement here and now; what it reads is worked out first, from what stands before it."""
        self.open[id(statement)] = statement.lineno
        own = bound_names([statement])
        try:
            for name in {n.id for n in ast.walk(statement) if isinstance(n, ast.Name)} - own:
                if any(name in local.by_name for local in self.plans):
                    with contextlib.suppress(KeyError):
                        self.look_up(name)
            code = compiled(ast.Module([statement], []), str(self.file.path), self.file.plan.future)
            exec(code, self.namespace)  # noqa: S102
        except KeyError as error:
            raise RuntimeError(f"KeyError: {error}") from error
        finally:
            del self.open[id(statement)]

    def look_up(self, name: str) -> object:
        for local in reversed(self.plans):
            self.run_all(local, name)
            if name in self.namespace:
                return self.namespace[name]
        if name in self.functions and self.depth < _MOST_CALLERS:
            try:
                self.namespace[name] = _from_caller(self.file, self.functions[name], name, self.depth)
            except HandedOverError:
                if name not in self.arguments:
                    raise
        if name not in self.namespace and name in self.arguments:
            self.namespace[name] = evaluate_in(self.file, self.arguments[name], [])
        return self.namespace[name] if name in self.namespace else self.file.look_up(name)

    def run_all(self, local: Plan, name: str) -> None:
        """Run what binds or changes `name`; of a branch that is taken no more than that."""
        running = min(self.open.values(), default=None)
        for number in local.by_name.get(name, ()):
            node = local.statements[number].node
            if running is not None and node.lineno > running:
                continue
            if isinstance(node, ast.If) and id(node) not in self.open:
                self.run_all(self.branch(node), name)
            else:
                self.run(local, number)

    def branch(self, node: ast.If) -> Plan:
        if id(node) not in self.taken:
            self.open[id(node)] = node.lineno
            try:
                code = compile(ast.Expression(node.test), str(self.file.path), "eval", dont_inherit=True)
                body = node.body if eval(code, self.namespace) else node.orelse  # noqa: S307
            except KeyError as error:
                raise RuntimeError(f"KeyError: {error}") from error
            finally:
                del self.open[id(node)]
            self.taken[id(node)] = plan(ast.Module(body, []))
        return self.taken[id(node)]

    def run(self, local: Plan, number: int) -> None:
        statement = local.statements[number]
        key = id(statement.node)
        if key in self.done or key in self.open:
            return
        self.open[key] = statement.node.lineno
        try:
            code = compiled(ast.Module([statement.node], []), str(self.file.path), self.file.plan.future)
            exec(code, self.namespace)  # noqa: S102
        except KeyError as error:
            raise RuntimeError(f"KeyError: {error}") from error
        finally:
            del self.open[key]
        self.done.add(key)


def _parameters(scope: Scope) -> list[str]:
    """Its parameters, those that have a position first."""
    if isinstance(scope, ast.If):
        return []
    return [a.arg for a in (*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs)]


def _from_caller(file: File, function: Scope, name: str, depth: int) -> object:
    """Evaluate what a function of the file is given for its parameter, by the first call that can be worked out."""
    tree = ast.parse(read(file.path))
    position = _parameters(function).index(name)
    reason = ""
    for call in (n for n in ast.walk(tree) if isinstance(n, ast.Call)):
        node = _given(call, getattr(function, "name", ""), name, position)
        if node is not None:
            try:
                return evaluate_in(file, node, scopes_around(tree, call), depth + 1)
            except (Exception, SystemExit) as error:  # noqa: BLE001  (any code of the user's; the next call may do)
                said = (str(error).splitlines() or [""])[0]
                reason = f" (line {call.lineno}: {type(error).__name__} {said})"
    place = Location(str(file.path), function.lineno)
    where = f"{getattr(function, 'name', '')}, at {place.path}:{place.line}"
    line = f'# remat: probe(names={{"{name}": …}})'
    raise HandedOverError(
        f"it is a parameter of {where}, whose callers don't tell it{reason}",
        f"add above line {place.line} of {place.path}: {line}",
        place,
    )


def _given(call: ast.Call, function: str, name: str, position: int) -> ast.expr | None:
    """Return what `function(…)`, or `mp.spawn(function, args=(…))`, gives for a parameter."""
    if dotted(call.func) == function and not any(isinstance(a, ast.Starred) for a in call.args):
        named = next((k.value for k in call.keywords if k.arg == name), None)
        return named or next(iter(call.args[position : position + 1]), None)
    if dotted(call.func).endswith("spawn") and call.args and dotted(call.args[0]) == function:
        handed = next((k.value for k in call.keywords if k.arg == "args"), None)
        if isinstance(handed, ast.Tuple) and position > 0:  # the first is the rank
            return next(iter(handed.elts[position - 1 : position]), None)
    return None


def line_of_function(scopes: Sequence[ast.AST]) -> int:
    """Where the innermost function of scopes begins; 0: there is none."""
    return next((s.lineno for s in reversed(scopes) if isinstance(s, ast.FunctionDef | ast.AsyncFunctionDef)), 0)


def scopes_around(tree: ast.Module, target: ast.AST) -> list[Scope]:
    """Return the functions, and the guard of a script, that a node stands in, the outermost first."""
    return next((path for node, path in _walk(tree, []) if node is target), [])


def _walk(node: ast.AST, path: list[Scope]) -> Iterator[tuple[ast.AST, list[Scope]]]:
    for child in ast.iter_child_nodes(node):
        yield child, path
        guard = isinstance(child, ast.If) and isinstance(node, ast.Module)
        inner = [*path, child] if guard or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else path
        yield from _walk(child, inner)  # type: ignore[arg-type]


def _plan_before(scope: Scope, node: ast.expr) -> Plan:
    """Return the statements of a scope that run before `node`, compound ones opened."""
    before = [s for s in _opened(scope.body, node) if s.lineno < node.lineno and not _holds(s, node)]
    return plan(ast.Module(before, []))


def _opened(body: list[ast.stmt], node: ast.expr | None) -> Iterator[ast.stmt]:
    for statement in body:
        if isinstance(statement, ast.With | ast.Try | ast.For | ast.While) and _is_opened(statement, node):
            yield from _opened(statement.body, node)
        elif isinstance(statement, ast.If) and node is not None and _holds(statement, node):  # the branch that is taken
            taken = any(_holds(inner, node) for inner in statement.body)
            yield from _opened(statement.body if taken else statement.orelse, node)
        else:
            yield statement


def _is_opened(statement: ast.stmt, node: ast.expr | None) -> bool:
    """A loop that neither trains nor holds what is asked for runs whole: it fills a list, mostly."""
    is_loop = isinstance(statement, ast.For | ast.While)
    return not is_loop or trains(statement) or (node is not None and _holds(statement, node))


def _holds(statement: ast.stmt, node: ast.expr) -> bool:
    return any(inner is node for inner in ast.walk(statement))


def _defaults(scope: Scope) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(scope, ast.If):
        return
    named = scope.args.args
    for argument, value in zip(named[len(named) - len(scope.args.defaults) :], scope.args.defaults, strict=True):
        yield argument.arg, value
    for argument, default in zip(scope.args.kwonlyargs, scope.args.kw_defaults, strict=True):
        if default is not None:
            yield argument.arg, default
