"""Finds where a project calls a class or function: in its code, and in the Python of its README."""

from __future__ import annotations

import ast
import inspect
import itertools
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from remat.probe.target.loading import File
from remat.probe.target.packages import read, text_of
from remat.probe.target.scopes import evaluate_in, scopes_around
from remat.probe.target.statements import dotted, holds_training, looks_like_module, plan
from remat.probe.target.trials import is_trained, is_trial

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remat.probe.target.scopes import Scope

_MOST_FILES, _MOST_FOLDERS, _LARGEST, _MOST_SITES = 600, 400, 200_000, 12
_MOST_OF_ONE = 4  # calls of one file
_PATIENCE = 10.0  # seconds of looking for calls
_NOT_CODE = {"node_modules", "site-packages", "build", "dist", "__pycache__"}
_BLOCK = re.compile(r"^[ \t]*```[ \t]*(?:python|py)[^\n]*\n(.*?)^[ \t]*```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Site:
    """One call, with the functions that it stands in."""

    file: File
    call: ast.Call
    scopes: list[Scope]
    is_trial: bool = False
    """it only tries the model out, and makes a small one"""
    is_trained: bool = False

    @property
    def method(self) -> str:
        """`from_name` of `Net.from_name(…)`; empty for `Net(…)`."""
        last = dotted(self.call.func).split(".")[-1]
        return last if last.startswith("from_") else ""

    @property
    def place(self) -> str:
        return f"{self.file.path}:{self.call.lineno}"


def sites(callee: object, file: File) -> list[Site]:
    """Return calls of `callee`, and of its methods `from_…`, the nearest to its file first; none of tests.

    Those that are trained come first. Those that only try it out come last, and only where none is trained: they are
    smaller.
    """
    key = (callee, file)
    if key not in _KNOWN:
        found = list(itertools.islice(_sites(callee, file), _MOST_SITES))
        real = sorted((site for site in found if not site.is_trial), key=lambda site: not site.is_trained)
        _KNOWN[key] = real if real and real[0].is_trained else [*real, *(site for site in found if site.is_trial)]
    return _KNOWN[key]


_KNOWN: dict[tuple[object, File], list[Site]] = {}


def _sites(callee: object, file: File) -> Iterator[Site]:
    name = str(getattr(callee, "__name__", ""))
    until = time.monotonic() + _PATIENCE
    for other, tree in _texts(name, file):
        named = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and _names(n, name)]
        here = (_site(other, call, tree, own_file=other is file) for call in named)
        yield from itertools.islice((site for site in here if _is_of(callee, site)), _MOST_OF_ONE)
        if time.monotonic() > until:
            return


def _site(file: File, call: ast.Call, tree: ast.Module, *, own_file: bool) -> Site:
    scopes = scopes_around(tree, call)
    return Site(file, call, scopes, is_trial(scopes, tree, own_file=own_file), is_trained(call, scopes, tree))


def sites_in_script(callee: object, file: File) -> list[Site]:
    """Return calls of `callee` in its own file, outside of modules, if that file is a script that trains."""
    tree = ast.parse(read(file.path))
    if not holds_training(tree):
        return []
    name = str(getattr(callee, "__name__", ""))
    modules = (c for c in ast.walk(tree) if isinstance(c, ast.ClassDef) and looks_like_module(c, tree))
    parts = {id(n) for module in modules for n in ast.walk(module)}
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and _names(n, name) and id(n) not in parts]
    trained = _trained(tree)
    calls.sort(key=lambda call: id(call) not in trained)
    here = (Site(file, call, scopes_around(tree, call)) for call in calls[:_MOST_OF_ONE])
    return [site for site in here if _is_of(callee, site)]


def _trained(tree: ast.Module) -> set[int]:
    """Return, by identity, what is in assignments to names whose parameters somebody asks for, as optimizers do."""
    asked = {
        dotted(n.value)
        for n in ast.walk(tree)
        if isinstance(n, ast.Attribute) and n.attr in {"parameters", "named_parameters"}
    }
    assigned = (n for n in ast.walk(tree) if isinstance(n, ast.Assign) and {dotted(t) for t in n.targets} & asked)
    return {id(inner) for node in assigned for inner in ast.walk(node.value)}


def _names(call: ast.Call, name: str) -> bool:
    parts = dotted(call.func).split(".")
    return parts[-1] == name or (len(parts) > 1 and parts[-2] == name and parts[-1].startswith("from_"))


def files_near(file: File) -> list[Path]:
    """Return the Python files of the project but its tests, the nearest to `file` first."""
    roots = [folder for folder in file.project.folders if folder.is_dir()]
    beside = [file.path, *sorted(file.path.parent.glob("*.py")), *sorted(file.path.parent.parent.glob("*.py"))]
    inside = sorted({p for root in roots for p in _python_files(root)}, key=lambda p: _farness(p, file))
    kept = [p for p in dict.fromkeys([*beside, *inside]) if p == file.path or (p.is_file() and not _is_test(p, file))]
    return kept[:_MOST_FILES]


def project_folders(file: File) -> Iterator[Path]:
    """Yield the folders of the project, from its roots on."""
    seen: set[Path] = set()
    for root in file.project.folders:
        for folder, names, _ in os.walk(root):
            names[:] = sorted(n for n in names if n not in _NOT_CODE and not n.startswith("."))
            if (Path(folder) / "pyvenv.cfg").is_file():
                names.clear()
                continue
            if Path(folder) not in seen:
                seen.add(Path(folder))
                yield Path(folder)
            if len(seen) >= _MOST_FOLDERS:
                return


def _python_files(root: Path) -> Iterator[Path]:
    for number, (folder, names, files) in enumerate(os.walk(root)):
        names[:] = sorted(n for n in names if n not in _NOT_CODE and not n.startswith("."))
        if number > _MOST_FOLDERS:
            return
        if "pyvenv.cfg" in files:
            names.clear()
        else:
            yield from (Path(folder) / name for name in files if name.endswith(".py"))


def _farness(path: Path, file: File) -> tuple[int, int, Path]:
    pairs = zip(path.parts, file.path.parts, strict=False)
    common = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
    return -common, len(path.parts), path


def _is_test(path: Path, file: File) -> bool:
    """Tell whether a file is one of tests, whose models are small ones."""
    root = next((folder for folder in reversed(file.project.folders) if path.is_relative_to(folder)), path.parent)
    parts = path.relative_to(root).parts
    return any(part.startswith("test") or part.endswith("_test.py") for part in parts)


def _texts(name: str, file: File) -> Iterator[tuple[File, ast.Module]]:
    """Yield the files, and blocks of READMEs, that call something of that name."""
    called = re.compile(rf"\b{re.escape(name)}(\.from_\w+)?\(")
    near = [p for p in files_near(file) if p.stat().st_size < _LARGEST and called.search(text_of(p))]
    scripts = [p for p in near if p.parent == file.path.parent and p != file.path]
    for path in scripts:
        yield from _parsed(path, file)
    yield from _of_readmes(called, file)
    for path in (p for p in near if p not in scripts):  # its own file among them: there it is a part of others
        yield from _parsed(path, file)


def _parsed(path: Path, file: File) -> Iterator[tuple[File, ast.Module]]:
    try:
        tree = ast.parse(read(path))
        yield (file if path == file.path else file.project.file(path)), tree
    except (Exception, SystemExit):  # noqa: BLE001  (any code of the user's; the next file may do)
        return


def _of_readmes(called: re.Pattern[str], file: File) -> Iterator[tuple[File, ast.Module]]:
    for root in file.project.folders:
        for path in sorted(root.glob("README*.md")):
            text = path.read_text(encoding="utf-8", errors="replace")
            for block in _BLOCK.finditer(text):
                if called.search(block[1]):
                    yield from _block(path, block[1], text[: block.start(1)].count("\n"), file)


def _block(path: Path, text: str, lines_before: int, file: File) -> Iterator[tuple[File, ast.Module]]:
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return
    ast.increment_lineno(tree, lines_before)
    shown = File(path, ModuleType(f"readme_{lines_before}"), plan(tree), file.project)
    shown.begin()
    yield shown, tree


def _is_of(callee: object, site: Site) -> bool:
    """Tell whether what is called there is `callee`, not another of its name."""
    function = site.call.func
    if site.method and isinstance(function, ast.Attribute):
        function = function.value
    try:
        thing = evaluate_in(site.file, function, site.scopes)
    except (Exception, SystemExit):  # noqa: BLE001  (any code of the user's)
        return False
    if thing is callee:
        return True
    same_name = getattr(thing, "__qualname__", None) == getattr(callee, "__qualname__", "")
    return same_name and _source(thing) is not None and _source(thing) == _source(callee)


def _source(thing: object) -> str | None:
    try:
        return inspect.getsourcefile(thing)  # type: ignore[arg-type]
    except TypeError:
        return None
