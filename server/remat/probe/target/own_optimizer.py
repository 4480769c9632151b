"""The optimizer that a script makes for its model, made as there: its class, its settings, the parameters it has."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, cast

import torch

from remat.probe.simulated.cuda.there import a_gpu_is_there
from remat.probe.target.model_lines import lines_that_make
from remat.probe.target.packages import read
from remat.probe.target.scopes import line_of_function, names_at, scopes_around
from remat.probe.target.statements import dotted
from remat.probe.target.tame import last_name
from remat.probe.target.training_precision import EIGHT_BIT
from remat.probe.target.training_script import UNKNOWN, called, reading
from remat.probe.target.unwritten import nothing_written

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from torch import nn

    from remat.probe.target.calls import Callee
    from remat.probe.target.loading import File
    from remat.probe.target.scopes import Scope
    from remat.probe.target.training_script import Script

_NAMED = re.compile(r"(?i)(?:^|[_.])opt(?!ion)|optim")
_ASKS = ("parameters", "named_parameters", "modules", "named_modules", "children")
_MOST_STEPS = 5


@dataclass(frozen=True, slots=True)
class Making:
    """A call that makes an optimizer. `roots`: the names of the models whose parameters it takes, as far as it shows.

    `function`: the line of the function that it stands in; 0: none. `name`: what it is called.
    """

    call: ast.Call
    line: int
    what: str
    roots: frozenset[str]
    function: int
    name: str


def makings(script: Script) -> Iterator[Making]:
    """The calls that make optimizers, those that surely are not reached left out."""
    for node in ast.walk(script.tree):
        if not isinstance(node, ast.Assign | ast.Return | ast.AnnAssign) or not isinstance(node.value, ast.Call):
            continue
        call = node.value
        if id(node) in script.aside or not (is_optimizer(script, call) or _is_named(node, call, script)):
            continue
        if script.is_reached(call) is not False:
            function = line_of_function(scopes_around(script.tree, call))
            name = "" if isinstance(node, ast.Return) else dotted(_target(node))
            yield Making(call, call.lineno, called(call), _roots(script.tree, call), function, name)


def _target(node: ast.Assign | ast.AnnAssign) -> ast.expr:
    return node.targets[0] if isinstance(node, ast.Assign) else node.target


def chosen(found: Sequence[Making], names: Mapping[int, str]) -> tuple[list[Making], list[Making]]:
    """Those that are for the model, and those that are for others. `names`: what the model is called in functions."""
    if not names:
        roots = {making.roots for making in found}
        return (list(found), []) if len(roots) < 2 else ([], list(found))
    direct = [m for m in found if names.get(m.function) in m.roots]
    unseen = [m for m in found if m.function not in names or not m.roots]
    mine = list({m.name: m for m in direct}.values()) or unseen[:1]
    near = [m for m in found if m.function in names and m not in direct and m.roots]
    return mine, near


def lines_of_training(file: File, tree: ast.Module) -> dict[int, str]:
    """Where a file makes its models; of a script that trains those that it has an optimizer for, if that tells them."""
    with reading(file) as script:
        if script is None:
            return lines_that_make(file, tree)
        trained = {root for making in makings(script) for root in making.roots}
        found = _assigned(script, trained) | lines_that_make(file, script.tree, partial(_may_be_reached, script))
    mine = {line: name for line, name in found.items() if name in trained}
    return mine or found


def _assigned(script: Script, names: set[str]) -> dict[int, str]:
    """Where a call gives each of these names what it stands for at first: `model = timm.create_model(…)`."""
    found: dict[str, int] = {}
    for node in ast.walk(script.tree):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call) or id(node) in script.aside:
            continue
        name = dotted(node.targets[0])
        itself = any(isinstance(n, ast.Name | ast.Attribute) and dotted(n) == name for n in ast.walk(node.value))
        if name in names and not itself and _may_be_reached(script, node.value):
            found[name] = max(node.lineno, found.get(name, 0))
    return {line: name for name, line in found.items()}


def _may_be_reached(script: Script, call: ast.Call) -> bool:
    return script.is_reached(call) is not False


def is_optimizer(script: Script, call: ast.Call) -> bool:
    if called(call) in EIGHT_BIT:
        return False
    made = script.value(call.func, call) if called(call)[:1].isupper() else UNKNOWN
    return isinstance(made, type) and issubclass(made, torch.optim.Optimizer)


def _is_named(node: ast.Assign | ast.Return | ast.AnnAssign, call: ast.Call, script: Script) -> bool:
    """Tell `optimizer = model.configure_optimizers(…)` and `optimizer = make_optimizer(model)` of the file's own."""
    if isinstance(node, ast.Return):
        return False
    target = dotted(_target(node))
    if (
        called(call) in EIGHT_BIT
        or not _NAMED.search(target.split(".")[-1])
        or called(call) in {"prepare", "initialize", "deepcopy"}
    ):
        return False
    own = {n.name for n in script.tree.body if isinstance(n, ast.FunctionDef)}
    return called(call) in own or (isinstance(call.func, ast.Attribute) and "optimizer" in last_name(call))


def _roots(tree: ast.Module, call: ast.Call) -> frozenset[str]:
    found: set[str] = set()
    seen: set[str] = set()
    open_: list[ast.AST] = [call]
    scope = next((s for s in reversed(scopes_around(tree, call)) if isinstance(s, ast.FunctionDef)), None)
    statements = list(ast.walk(scope or tree))
    for _ in range(_MOST_STEPS):
        names: set[str] = set()
        for node in (n for part in open_ for n in ast.walk(part)):
            if isinstance(node, ast.Attribute) and node.attr in _ASKS:
                found.add(dotted(node.value).split(".")[0] if dotted(node.value)[:5] != "self." else _own(node.value))
            elif isinstance(node, ast.Name):
                names.add(node.id)
        names -= seen
        seen |= names
        open_ = [s for s in statements if isinstance(s, ast.Assign | ast.For) and _binds(s) & names]
    handed = {dotted(a) for a in (*call.args, *(k.value for k in call.keywords)) if dotted(a)}
    if isinstance(call.func, ast.Attribute) and "optimizer" in last_name(call):
        handed.add(dotted(call.func.value))
    return frozenset(found | handed) - {""}


def _own(node: ast.expr) -> str:
    """`self.model` of `self.model.encoder.parameters()`."""
    return ".".join(dotted(node).split(".")[:2])


def _binds(node: ast.Assign | ast.For) -> set[str]:
    if isinstance(node, ast.For):  # `for p in model.parameters(): groups.append(p)`
        calls = (n for s in node.body for n in ast.walk(s) if isinstance(n, ast.Call))
        return {dotted(c.func.value) for c in calls if isinstance(c.func, ast.Attribute) and c.func.attr == "append"}
    return {dotted(target) for target in node.targets}


def made_for(model: nn.Module, file: File, call: ast.Call, names: Mapping[int, str]) -> torch.optim.Optimizer:
    """What a call of a script makes for `model`. `names`: what the model is called, by the line of each function.

    Raises what its parts raise, and TypeError where it is no optimizer.
    """
    tree = ast.parse(read(file.path))
    twin = next(
        n
        for n in ast.walk(tree)
        if isinstance(n, ast.Call) and (n.lineno, n.col_offset) == (call.lineno, call.col_offset)
        and n.end_col_offset == call.end_col_offset and n.end_lineno == call.end_lineno
    )  # fmt: skip
    scopes = scopes_around(tree, twin)
    given = names.get(line_of_function(scopes))
    with nothing_written(), a_gpu_is_there():
        local = names_at(file, scopes, twin, tree)
        for name in [given] if given else _roots(tree, twin) & _may_be(scopes, twin, tree):
            local.give_within(name, model)
        made = local.evaluate(twin)
    if isinstance(made, dict):
        made = made.get("optimizer")
    if isinstance(made, tuple | list) and made:
        made = made[0]
    if not isinstance(made, torch.optim.Optimizer):
        raise TypeError(f"expected an optimizer, got {type(made).__name__}")
    return made


def _may_be(scopes: list[Scope], call: ast.Call, tree: ast.Module) -> set[str]:
    """Names that the model may have where nobody followed it there: parameters, and what is assigned."""
    found = {a.arg for f in scopes if isinstance(f, ast.FunctionDef) for a in f.args.args}
    assigned = {dotted(t) for n in ast.walk(tree) if isinstance(n, ast.Assign) for t in n.targets}
    return (found | assigned | {"self"}) - {dotted(call.func)}


def configured(model: nn.Module) -> torch.optim.Optimizer | None:
    """What a LightningModule says of its optimizer; None of other models."""
    method = getattr(model, "configure_optimizers", None)
    if method is None or not any(kind.__name__ == "LightningModule" for kind in type(model).__mro__):
        return None
    with nothing_written(), a_gpu_is_there():
        made = cast("Callee[object]", method)()
    for _ in range(3):
        made = made.get("optimizer") if isinstance(made, dict) else made
        made = made[0] if isinstance(made, tuple | list) and made else made
    return made if isinstance(made, torch.optim.Optimizer) else None
