"""Where the code that a log names calls a collective on some ranks only: no log shows that, the workspace does."""

from __future__ import annotations

import ast
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from remat.diagnose.report import Claim, Cure, Place
from remat.diagnose.signatures import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from remat.diagnose.report import Report
    from remat.incident.code_paths import CodePaths, Named

KIND = "dist.rank0_only_collective"
# What ranks say that wait for others, or that were left by them: none of it says why.
_UNEXPLAINED = frozenset(
    {
        "ambiguous.no_traceback",
        "dist.gloo_peer_closed",
        "dist.peer_stalled",
        "dist.rank_divergence_undetermined",
        "dist.rank_divergent_control_flow",
        "dist.store_timeout",
        "dist.uneven_inputs",
        "nccl.timeout",
        "nccl.timeout_rank_absent",
        "nccl.timeout_undetermined",
    }
)
_NAMES = frozenset(
    """
    rank local_rank global_rank world_rank dp_rank process_rank is_main_process is_master is_main is_rank_zero
    is_rank0 master_process main_process
    """.split()
)
_MEMBERS = _NAMES - {"rank"} | frozenset(
    "is_local_main_process is_world_process_zero is_local_process_zero is_global_zero process_index "
    "local_process_index should_save".split()
)
_CALLS = frozenset("get_rank get_global_rank get_local_rank is_main_process is_rank_zero is_master".split())
_WHO_HAS_A_RANK = frozenset("self args opt cfg config env dist state ctx trainer fabric accelerator".split())
_VARIABLES = frozenset({"RANK", "LOCAL_RANK"})
_COLLECTIVES = frozenset(
    """
    barrier monitored_barrier all_reduce all_gather all_gather_object all_gather_into_tensor broadcast
    broadcast_object_list reduce reduce_scatter reduce_scatter_tensor all_to_all all_to_all_single gather gather_object
    scatter scatter_object_list wait_for_everyone gather_for_metrics pad_across_processes save_state
    """.split()
)
_MOST_FILES = 20
_Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Module
_LATER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


@dataclass(frozen=True, slots=True)
class Guarded:
    """A collective `call` on `line` that some ranks never reach. `where`: how it stands to the test, in words."""

    call: str
    line: int
    where: str


def explained_by_code(
    report: Report,
    named: Iterable[tuple[int, Named]],
    code: CodePaths,
    text_of: Callable[[str], str | None],
) -> Report:
    """`report`, with the guarded collective as its cause where a waiting rank's frame stands in one."""
    if report.cause is None or report.cause.id not in _UNEXPLAINED:
        return report
    by_path: dict[str, list[tuple[int, Named]]] = {}
    for number, place in named:
        path = code.find(place.path)
        if path and code.inside(path) and (path in by_path or len(by_path) < _MOST_FILES):
            by_path.setdefault(path, []).append((number, place))
    for path, places in by_path.items():
        found = {one.line: one for one in guarded(text_of(path) or "")}
        hits = [(number, place) for number, place in places if place.line in found]
        if hits:
            return _explained(report, report.cause, found[hits[0][1].line], hits)
    return report


def _explained(report: Report, cause: Claim, found: Guarded, hits: list[tuple[int, Named]]) -> Report:
    where = Place(hits[0][1].path, found.line)
    lines = tuple(sorted({*cause.lines, *(number for number, place in hits if place.line == found.line)}))
    summary = (
        f"`{found.call}` at {where.path}:{where.line} stands {found.where}: "
        "some ranks never call it, and those that do wait for them."
    )
    fix = f"Call {found.call} on every rank: it must not stand {found.where}."
    step = f"the code: a waiting rank's frame stands {found.where}"
    decided = (*report.decided, Claim(KIND, step, lines))
    return replace(
        report,
        cause=Claim(KIND, summary, lines),
        initiating_rank=None,  # no rank did wrong: the program did
        fix=Cure(fix, KINDS[KIND].rules),
        verify=KINDS[KIND].verify,
        missing=(),
        location=where,
        decided=decided,
    )


def guarded(text: str) -> Iterator[Guarded]:
    """Collectives under an `if` on the rank whose other ranks call none in its place."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for scope in ast.walk(tree):
        if isinstance(scope, _Scope):
            yield from _in_scope(scope)


def _in_scope(scope: _Scope) -> Iterator[Guarded]:
    tests = [node for node in _here(scope) if isinstance(node, ast.If) and _on_rank(node.test)]
    for test in tests:
        elsewhere = {name for other in tests if other is not test for name in _names(other.body)} | _names(test.orelse)
        guard = ast.unparse(test.test)
        guard = guard if len(guard) <= 80 else f"{guard[:77]}..."
        yield from _without(elsewhere, test.body, f"under `if {guard}`")
        if isinstance(test.body[-1], ast.Return) and not test.orelse:
            behind = [node for node in scope.body if node.lineno > test.lineno] if test in scope.body else []
            yield from _without(elsewhere | _names(test.body), behind, f"behind `if {guard}: return`")


def _on_rank(test: ast.expr) -> bool:
    """Whether a condition tells ranks apart, not some other rank or index: that of a matrix, or of a batch."""
    for node in ast.walk(test):
        if isinstance(node, ast.Name) and node.id in _NAMES:
            return True
        if isinstance(node, ast.Constant) and node.value in _VARIABLES:
            return True
        if isinstance(node, ast.Attribute) and node.attr in _MEMBERS:
            return True
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in _CALLS:
            return True
        if isinstance(node, ast.Compare) and _compares_rank(node):
            return True
    return False


def _compares_rank(node: ast.Compare) -> bool:
    """`self.rank == 0`, but not `self.rank > 0`, which adapters of low rank say, too."""
    left = node.left
    return (
        isinstance(left, ast.Attribute)
        and left.attr == "rank"
        and isinstance(left.value, ast.Name)
        and left.value.id in _WHO_HAS_A_RANK
        and isinstance(node.ops[0], ast.Eq | ast.NotEq)
    )


def _without(elsewhere: set[str], body: Iterable[ast.stmt], where: str) -> Iterator[Guarded]:
    for name, line in _collectives(body):
        if name.split(".")[-1] not in elsewhere:
            yield Guarded(f"{name}()", line, where)


def _names(body: Iterable[ast.stmt]) -> set[str]:
    return {name.split(".")[-1] for name, _ in _collectives(body)}


def _collectives(body: Iterable[ast.stmt]) -> Iterator[tuple[str, int]]:
    """Calls on the whole world; a call on a group may be meant for these ranks alone."""
    for statement in body:
        inside = () if isinstance(statement, _LATER) else (statement, *_here(statement))
        for node in inside:
            if isinstance(node, ast.Call) and not any(word.arg in {"group", "process_group"} for word in node.keywords):
                name = ast.unparse(node.func)
                if name.split(".")[-1] in _COLLECTIVES and "." in name:
                    yield name, node.lineno


def _here(node: ast.AST) -> Iterator[ast.AST]:
    """Everything below `node` that runs when it does: not the bodies of functions defined there."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, _LATER):
            yield child
            yield from _here(child)
