"""Decides which top-level statements of a user's file may run, and when: definitions and settings, no training."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class When(Enum):
    """When a statement runs."""

    AT_ONCE = "at once"
    ON_DEMAND = "on demand"  # when a name that it binds is looked up
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Statement:
    node: ast.stmt
    when: When
    binds: frozenset[str] = frozenset()
    changes: frozenset[str] = frozenset()
    """names whose objects it changes: it runs after the statements that bind them"""


@dataclass(frozen=True, slots=True)
class Plan:
    """A file's statements in order, those of a script's guard last.

    `future`: compiler flags of its `from __future__` imports. `top`: how many are not of the guard.
    `guarded`: what only the guard binds.
    """

    statements: tuple[Statement, ...] = ()
    future: int = 0
    top: int = 0
    by_name: dict[str, list[int]] = field(default_factory=dict)
    guarded: dict[str, list[int]] = field(default_factory=dict)
    by_text: bool = False
    """it looks names up in the `__dict__` of modules that it imports, where only what has run is found"""


# Calls by whose root name we know that they set something up that the rest of the file relies on.
_SETUP_ROOTS = {"sys", "os", "warnings", "logging", "random", "np", "numpy", "site", "importlib"}
_SETUP_CALLS = {
    "torch.manual_seed", "torch.set_default_dtype", "torch.set_float32_matmul_precision", "torch.fx.wrap",
    "torch.use_deterministic_algorithms", "torch.serialization.add_safe_globals", "torch.library.define",
}  # fmt: skip
# Methods that only tell an object what it is; any other call may be the training itself.
_SETUP_METHODS = {
    "add_argument", "add_argument_group", "add_mutually_exclusive_group", "set_defaults", "append", "extend", "insert",
    "update", "add", "setdefault", "register", "register_module", "add_module", "to", "cuda", "cpu", "half", "float",
    "bfloat16", "double", "apply", "requires_grad_", "eval", "freeze", "merge", "merge_from_list", "add_adapter",
    "resize_token_embeddings", "tie_weights", "print_trainable_parameters", "gradient_checkpointing_enable",
    "gradient_checkpointing_disable", "activation_checkpointing_enable", "enable_input_require_grads",
    "set_grad_checkpointing", "enable_gradient_checkpointing",
}  # fmt: skip
_TRAINING = {
    "backward",
    "step",
    "zero_grad",
    "fit",
    "train_step",
    "training_step",
    "fit_generator",
    "save",
    "save_pretrained",
}
_HARMLESS = re.compile(
    r"(warnings|logging|random|site|importlib|os\.environ|sys\.path|sys\.modules|sys\.argv|(np|numpy)\.random)\..*"
    r"|os\.(chdir|putenv)|sys\.(setrecursionlimit|stdout\.\w+|stderr\.\w+)|(np|numpy)\.(set_printoptions|seterr)"
)
"""calls by those names that change nothing but this process"""


def plan(tree: ast.Module) -> Plan:
    statements = tuple(map(_statement, tree.body))
    if _looks_names_up_by_text(tree):
        statements = tuple(_sooner(statement) for statement in statements)
    statements = tuple(_unless_training(statement, tree) for statement in statements)
    guards = [node for node in tree.body if isinstance(node, ast.If) and is_main_guard(node)]
    script = tuple(_only_on_demand(_statement(node)) for guard in guards for node in guard.body)
    by_name = _by_name(statements, 0)
    guarded = {name: found for name, found in _by_name(script, len(statements)).items() if name not in by_name}
    return Plan((*statements, *script), _future(tree), len(statements), by_name, guarded, _reads_dictionaries(tree))


def _unless_training(statement: Statement, tree: ast.Module) -> Statement:
    """`model = train(model)` never runs, where `train` is a function of the file that trains."""
    node = statement.node
    called = dotted(node.value.func) if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) else ""
    if called and any(isinstance(n, ast.FunctionDef) and n.name == called and trains(n) for n in tree.body):
        return Statement(node, When.NEVER)
    return statement


def _by_name(statements: tuple[Statement, ...], first: int) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for number, statement in enumerate(statements, first):
        if statement.when is not When.NEVER:
            for name in statement.binds | statement.changes:
                found.setdefault(name, []).append(number)
    return found


def _only_on_demand(statement: Statement) -> Statement:
    when = When.ON_DEMAND if statement.when is When.AT_ONCE and statement.binds else statement.when
    return Statement(statement.node, When.NEVER if when is When.AT_ONCE else when, statement.binds, statement.changes)


def trains(node: ast.AST) -> bool:
    """Tell whether a statement calls what a training loop calls."""
    return any(
        isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr in _TRAINING
        for n in ast.walk(node)
    )


def holds_training(node: ast.AST) -> bool:
    """Tell whether a script or a function runs training itself: it calls backward, or makes a trainer."""
    calls = (n for n in ast.walk(node) if isinstance(n, ast.Call))
    return any(
        dotted(call.func).endswith("Trainer") or (isinstance(call.func, ast.Attribute) and call.func.attr == "backward")
        for call in calls
    )


def looks_like_module(node: ast.ClassDef, tree: ast.Module) -> bool:
    """Tell by the names of its bases, and of theirs in the same file, whether a class is one of modules."""
    names = [dotted(base) for base in node.bases]
    if any(name.split(".")[-1].endswith(("Module", "Model", "PreTrainedModel", "Sequential")) for name in names):
        return True
    own = {n.name: n for n in tree.body if isinstance(n, ast.ClassDef) and n is not node}
    return any(name in own and looks_like_module(own[name], tree) for name in names)


def bound_names(nodes: Sequence[ast.stmt]) -> frozenset[str]:
    """Return the names that statements bind in the scope they stand in."""
    return frozenset(name for node in nodes for name in _bound(node))


def dotted(node: ast.expr) -> str:
    """Return `a.b.c` for such an expression, an empty text for any other."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        left = dotted(node.value)
        return f"{left}.{node.attr}" if left else ""
    return ""


def _statement(node: ast.stmt) -> Statement:
    if isinstance(node, ast.Import | ast.ImportFrom):
        return Statement(node, When.ON_DEMAND, bound_names([node]))
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        # a decorator may register what it decorates
        return Statement(node, When.AT_ONCE if node.decorator_list else When.ON_DEMAND, frozenset({node.name}))
    if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
        return _assignment(node)
    if isinstance(node, ast.Expr):
        return _expression(node)
    if isinstance(node, ast.If) and (is_main_guard(node) or dotted(node.test).endswith("TYPE_CHECKING")):
        return _type_checking_else(node)
    if isinstance(node, ast.If | ast.Try | ast.With | ast.For | ast.While | ast.Match) and not trains(node):
        changed = frozenset(root for inner in _inside(node) for root in _statement(inner).changes)
        binds = bound_names([node])
        sets_up = not binds and all(_statement(inner).when is When.AT_ONCE for inner in _inside(node))
        when = When.AT_ONCE if sets_up else When.ON_DEMAND if binds or changed else When.NEVER
        return Statement(node, when, binds, changed)
    return Statement(node, When.NEVER)


def _type_checking_else(node: ast.If) -> Statement:
    if is_main_guard(node) or not node.orelse:
        return Statement(node, When.NEVER)
    if any(_statement(inner).when is When.AT_ONCE for inner in node.orelse):
        return Statement(node, When.AT_ONCE, bound_names(node.orelse))
    return Statement(node, When.ON_DEMAND, bound_names(node.orelse))


def _assignment(node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> Statement:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    binds, changes = bound_names([node]), frozenset(filter(None, (_changed_root(t) for t in targets)))
    if changes & _SETUP_ROOTS or any(dotted(t).startswith("torch.backends.") for t in targets):
        return Statement(node, When.AT_ONCE, binds)
    if isinstance(node, ast.AnnAssign) and node.value is None:
        return Statement(node, When.NEVER)
    return Statement(node, When.ON_DEMAND, binds, changes)


def _changed_root(target: ast.expr) -> str:
    """`cfg` of `cfg.lr = 1` and `cfg["a"]["b"] = 1`."""
    if not isinstance(target, ast.Attribute | ast.Subscript):
        return ""
    node: ast.expr = target
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _expression(node: ast.Expr) -> Statement:
    call = node.value
    if not isinstance(call, ast.Call):
        return Statement(node, When.NEVER)
    name = dotted(call.func)
    root, _, method = name.rpartition(".")
    first = name.split(".")[0]
    if name in _SETUP_CALLS or _HARMLESS.fullmatch(name) or name.split(".")[-1].startswith("register"):
        return Statement(node, When.AT_ONCE)
    if first in _SETUP_ROOTS or first in {"subprocess", "shutil"}:
        return Statement(node, When.NEVER)
    if root and method in _SETUP_METHODS:
        return Statement(node, When.ON_DEMAND, frozenset(), frozenset({first}))
    return Statement(node, When.NEVER)


def is_main_guard(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and any(isinstance(n, ast.Name) and n.id == "__name__" for n in ast.walk(node.test))


def _inside(node: ast.stmt) -> Iterator[ast.stmt]:
    """Yield the statements directly inside a compound one, all its branches."""
    for name in ("body", "orelse", "finalbody"):
        yield from getattr(node, name, [])
    for handler in [*getattr(node, "handlers", []), *getattr(node, "cases", [])]:
        yield from handler.body


def _bound(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        for alias in node.names:
            yield (
                (alias.asname or alias.name)
                if isinstance(node, ast.ImportFrom)
                else (alias.asname or alias.name.split(".")[0])
            )
    elif isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        yield node.name
    elif not isinstance(node, ast.If | ast.Try | ast.With | ast.For | ast.While | ast.Match):
        yield from _stored(node)
    else:
        heads = [getattr(node, "target", None), *(item.optional_vars for item in getattr(node, "items", []))]
        for head in filter(None, heads):
            yield from _stored(head)
        for inner in _inside(node):
            yield from _bound(inner)


def _stored(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
        return
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    for child in ast.iter_child_nodes(node):
        yield from _stored(child)


def _looks_names_up_by_text(tree: ast.Module) -> bool:
    """`globals()["Name"]` finds only what has run."""
    return any(isinstance(n, ast.Name) and n.id in {"globals", "vars", "locals"} for n in ast.walk(tree))


def _reads_dictionaries(tree: ast.Module) -> bool:
    """`models.__dict__[name]`."""
    return any(isinstance(n, ast.Attribute) and n.attr == "__dict__" for n in ast.walk(tree))


def _sooner(statement: Statement) -> Statement:
    if isinstance(statement.node, ast.ClassDef | ast.FunctionDef):
        return Statement(statement.node, When.AT_ONCE, statement.binds, statement.changes)
    return statement


def _future(tree: ast.Module) -> int:
    import __future__  # noqa: PLC0415  (its name reads as a statement of this file)

    flags = 0
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            for alias in node.names:
                flags |= getattr(__future__, alias.name).compiler_flag
    return flags
