"""Turns a target, as a user types it, into a model, its batch and its loss."""

from __future__ import annotations

import argparse
import ast
import contextlib
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, cast

from torch import nn

from remat.probe.built import Built, FactMissingError
from remat.probe.messages import Location
from remat.probe.target import hugging_face
from remat.probe.target.asides import set_aside
from remat.probe.target.building import outside
from remat.probe.target.call_sites import sites_in_script
from remat.probe.target.construct import arguments_for
from remat.probe.target.defaults import default_dtype
from remat.probe.target.following import Following
from remat.probe.target.loading import File, Project, install
from remat.probe.target.made import Made, built_from
from remat.probe.target.model_lines import call_on, lines_that_make
from remat.probe.target.own_optimizer import lines_of_training
from remat.probe.target.packages import imports, packages, read
from remat.probe.target.scopes import evaluate, evaluate_in, scopes_around
from remat.probe.target.spec import NOTHING, Spec, owner, spec_of, specs
from remat.probe.target.statements import bound_names, dotted, holds_training, looks_like_module, plan
from remat.probe.target.switches import said, switched, switches
from remat.probe.target.weights import keep_away
from remat.probe.target.whereabouts import origin
from remat.probe.target.written import built_by_functions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remat.probe.target.calls import Callee

_FILE = re.compile(r"(?P<path>.+?\.py)(?::(?P<name>[^:/\\]+))?")
WRITTEN = "remat_probe.py"
_NAMES: dict[str, object] = {"Namespace": argparse.Namespace}  # for settings, in `model=` of a probe comment


def resolve(target: str, folder: str = ".") -> Built:
    """Return how to make what `target` names; relative paths start in `folder`.

    Raises FactMissingError where a fact is missing, and what the user's own code raises. From the first call to the
    end of the process the user's files are loaded in part, no weights are loaded and no connection is opened.
    """
    keep_away()
    set_aside()  # what was said of a target before that could not be made
    base = Path(folder).absolute()
    if target.startswith("hf:"):
        return hugging_face.built(target.removeprefix("hf:"), base)
    whole = base / target
    if whole.is_dir() and (whole / WRITTEN).is_file():
        target = f"{target}/{WRITTEN}"
    elif whole.is_dir() and (whole / "config.json").is_file():
        return hugging_face.built(target, base)
    match = _FILE.fullmatch(target)
    if match is None:
        raise FactMissingError(
            f"`{target}` is no target",
            "give file.py:ClassName, file.py, or hf:FOLDER-or-NAME (a model of Hugging Face)",
        )
    path = (base / match["path"]).absolute()
    if not path.is_file():
        raise FactMissingError(
            f"{path} does not exist", "give the path of a Python file, from the folder of the project"
        )
    return _of_file(path, match["name"], base)


def _of_file(path: Path, name: str | None, base: Path) -> Built:
    text = read(path)
    tree = ast.parse(text, str(path))
    file = _load(path, base)
    written = path.parent / WRITTEN
    if path.name == WRITTEN:
        return built_by_functions(file)
    if written.is_file() and not specs(text, str(path)) and (name is None or name in read(written)):
        return built_by_functions(file.project.file(written))
    if name is not None and name.isdecimal():
        return built_from(_on_line(file, tree, text, int(name)))
    if name is None and (line := _only_line(file, tree, text)):
        return built_from(_on_line(file, tree, text, line))
    return built_from(_named(file, tree, text, name or _only_name(text, tree, path)))


def _load(path: Path, base: Path) -> File:
    around = packages(path)
    # a package's own folder is on nobody's path: `import triton` isn't meant to find the package's `triton`
    own = [path.parent] if not around or _imports_from_beside(path) else []
    folders = [*_named_roots(path), around[-1].parent if around else path.parent, *own, base, *_project_roots(path)]
    project = Project(tuple(dict.fromkeys(folders)), outside)
    install(project)
    comments = specs(read(path), str(path))
    said = next((spec.args for spec in comments if spec.args is not None), "")
    sys.argv = [str(path), *shlex.split(said)]
    file = project.file(path)
    for names in (spec.names for spec in comments if spec.names is not None):
        vars(file.module).update(cast("dict[str, object]", evaluate(file, names, _NAMES)))
    return file


def _imports_from_beside(path: Path) -> bool:
    """Tell whether a file of a package imports its neighbours as if it were a script among them."""
    firsts = {name.split(".")[0] for name in _imported(path)} - {path.stem}
    return any((path.parent / f"{name}.py").is_file() for name in firsts)


def _named_roots(path: Path) -> Iterator[Path]:
    """Yield the folders above that hold the packages without `__init__.py` which a file names itself by."""
    for name in (n for n in _imported(path) if "." in n):
        first, second, *_ = name.split(".")
        for parent in path.parents:
            inner = parent / first / second
            if inner.is_dir() or inner.with_suffix(".py").is_file():
                yield parent
                break


def _imported(path: Path) -> set[str]:
    found = imports(path)
    named = {a.name for node in found if isinstance(node, ast.Import) for a in node.names}
    return named | {n.module for n in found if isinstance(n, ast.ImportFrom) and n.level == 0 and n.module}


def _project_roots(path: Path) -> Iterator[Path]:
    for parent in path.parents:
        if (parent / "pyproject.toml").is_file() or (parent / ".git").exists() or (parent / "setup.py").is_file():
            yield parent
            if (parent / "src").is_dir():
                yield parent / "src"
            return


def _only_name(text: str, tree: ast.Module, path: Path) -> str:
    """Return what a bare `file.py` means: what its comment stands at, else its only model that no other contains."""
    for spec in specs(text, str(path)):
        if name := owner(text, spec):
            return name
        if spec.model:
            return ""
    classes = [n for n in tree.body if isinstance(n, ast.ClassDef) and looks_like_module(n, tree)]
    used = {
        dotted(n.func) for c in tree.body if isinstance(c, ast.ClassDef) for n in ast.walk(c) if isinstance(n, ast.Call)
    }
    bases = {dotted(b) for c in classes for b in c.bases}
    outermost = [c.name for c in classes if c.name not in used and c.name not in bases]
    if len(outermost) == 1:
        return outermost[0]
    names = ", ".join(f"{path.name}:{name}" for name in outermost or [c.name for c in classes])
    raise FactMissingError(
        f"which of the models in {path} is meant" if classes else f"no model class in {path}",
        f"say which: {names}"
        if classes
        else f"add a line: # remat: probe(model=…), or {WRITTEN} with build() beside it",
        Location(str(path), 1),
    )


def _only_line(file: File, tree: ast.Module, text: str) -> int | None:
    """Return where a script makes its model, if neither a comment nor a class of its own says what is meant."""
    classes = any(isinstance(n, ast.ClassDef) and looks_like_module(n, tree) for n in tree.body)
    if classes or any(spec.model or owner(text, spec) for spec in specs(text, str(file.path))):
        return None
    found = lines_of_training(file, tree)
    if len(found) < 2:
        return next(iter(found), None)
    choices = ", ".join(f"{file.path.name}:{line} ({name})" for line, name in sorted(found.items()))
    raise FactMissingError(
        f"which of the models that {file.path} makes is meant", f"say which: {choices}", Location(str(file.path), 1)
    )


def _named(file: File, tree: ast.Module, text: str, name: str) -> Made:
    """A class, a function that returns a model, or a variable that holds one."""
    node = _definition(tree, name)
    spec = spec_of(text, str(file.path), node)
    place = Location(str(file.path), node.lineno if node else spec.line or 1)
    if isinstance(node, ast.FunctionDef) and holds_training(node):
        raise FactMissingError(
            f"what `{name}` trains: it holds the training, which is never run whole",
            f"name what makes its model: {_makes_there(file, tree, node)}",
            place,
        )
    if spec.model is not None:
        source = spec.model
        return Made(lambda: evaluate(file, source, _NAMES), file, spec, place)
    thing = _held(file, tree, name) if node is None else file.look_up(node.name)
    if thing is None:
        return _variable(file, tree, name, spec)
    for part in name.split(".")[1:]:
        thing = getattr(thing, part)
    if not callable(thing) or (isinstance(thing, type) and not issubclass(thing, nn.Module)):
        raise FactMissingError(
            f"`{name}` is no torch.nn.Module",
            "name a class of modules, a function that returns one, or a variable",
            place,
        )
    callee = cast("Callee[object]", thing)
    arguments = arguments_for(callee, file, place, config=spec.config)
    dtype = default_dtype(callee, file)
    assumed = () if dtype is None else (dtype.said,)
    site = next(iter(sites_in_script(callee, file)), None)
    if site is None:
        return Made(lambda: arguments.call(callee), file, spec, place, assumed, arguments.said, dtype)
    following = Following(file, site.call, lambda: arguments.call(callee))
    said = lambda: (*arguments.said(), *following.said())  # noqa: E731
    return Made(
        following.made, file, spec, place, assumed, said, dtype, following.names, lambda: following.beside_bytes
    )


def _makes_there(file: File, tree: ast.Module, function: ast.FunctionDef) -> str:
    lines = [n for n in sorted(lines_that_make(file, tree)) if function.lineno <= n <= (function.end_lineno or n)]
    return ", ".join(f"{file.path.name}:{line}" for line in lines) or f"{file.path.name}:ClassName"


def _definition(tree: ast.Module, name: str) -> ast.ClassDef | ast.FunctionDef | None:
    first = name.split(".", maxsplit=1)[0]
    found = [n for n in ast.walk(tree) if isinstance(n, ast.ClassDef | ast.FunctionDef) and n.name == first]
    return next((n for n in found if n in tree.body), None) or next(
        (n for n in found if isinstance(n, ast.ClassDef) and not scopes_around(tree, n)), None
    )


def _held(file: File, tree: ast.Module, name: str) -> object:
    """Return the class or function that a name is imported as, or is another name for."""
    bound = [n for n in tree.body if name in bound_names([n])]
    for statement in bound:
        alias = isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Name | ast.Attribute)
        if alias or isinstance(statement, ast.Import | ast.ImportFrom):
            thing = file.look_up(name)
            return thing if callable(thing) and not isinstance(thing, nn.Module) else None
    return None


def _variable(file: File, tree: ast.Module, name: str, spec: Spec) -> Made:
    """Evaluate what a name is assigned, each time anew: under fakes its tensors must be fakes."""
    assigned = [
        n
        for n in ast.walk(tree)
        if isinstance(n, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in n.targets)
    ]
    if not assigned:
        defined = [n.name for n in tree.body if isinstance(n, ast.ClassDef)]
        raise FactMissingError(
            f"{file.path} defines no `{name}`",
            f"it has {', '.join(defined) or 'no classes'}",
            Location(str(file.path), 1),
        )
    place = Location(str(file.path), assigned[0].lineno)
    if name in file.plan.by_name:
        return Made(lambda: _fresh(file, tree).look_up(name), file, spec, place)
    own = [n for n in assigned if all(not isinstance(m, ast.Name) or m.id != name for m in ast.walk(n.value))]
    node = (own or assigned)[-1]
    scopes = scopes_around(tree, node)
    return Made(lambda: evaluate_in(file, node.value, scopes), file, spec, place)


def _fresh(file: File, tree: ast.Module) -> File:
    """Load a file once more, with its tensors made in the world that is entered now."""
    from types import ModuleType  # noqa: PLC0415

    module = ModuleType(file.module.__name__)
    module.__file__, module.__package__, module.__spec__ = (
        file.module.__file__,
        file.module.__package__,
        file.module.__spec__,
    )
    anew = File(file.path, module, plan(tree), Project(file.project.folders, contextlib.nullcontext))
    anew.begin()
    return anew


def _on_line(file: File, tree: ast.Module, text: str, line: int) -> Made:
    """The call that makes a model on that line, else the class the line is in."""
    place = Location(str(file.path), line)
    chosen = call_on(file, tree, line)
    if chosen is not None:
        spec = next((s for s in specs(text, str(file.path)) if not owner(text, s)), NOTHING)
        return _called(file, tree, chosen, spec, place)
    around = [n for n in tree.body if isinstance(n, ast.ClassDef) and n.lineno <= line <= (n.end_lineno or n.lineno)]
    if not around:
        raise FactMissingError(
            f"no model is made on line {line}", "name a line with a from_pretrained call, or file.py:ClassName", place
        )
    return _named(file, tree, text, around[0].name)


def _called(file: File, tree: ast.Module, call: ast.Call, spec: Spec, place: Location) -> Made:
    """What a call of the file makes, and what happens to it there."""
    if holds_training(tree):
        first = origin(tree, call)
        scopes = scopes_around(tree, first)
        following = Following(file, first, lambda: evaluate_in(file, first, scopes))
        return Made(
            following.made,
            file,
            spec,
            place,
            said=following.said,
            names=following.names,
            beside=lambda: following.beside_bytes,
        )
    scopes = scopes_around(tree, call)
    found = switches(tree, call)

    def make() -> object:
        return switched(evaluate_in(file, call, scopes), found, lambda given: evaluate_in(file, given, scopes))

    return Made(make, file, spec, place, said(found))
