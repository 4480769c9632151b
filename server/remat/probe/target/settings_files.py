"""Finds what a class reads of its configuration, and the files and command lines of the project that hold all of it."""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
import json
import re
import textwrap
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from remat.probe.built import FactMissingError
from remat.probe.target.call_sites import files_near, project_folders
from remat.probe.target.packages import text_of
from remat.probe.target.scopes import evaluate_in, scopes_around
from remat.probe.target.statements import dotted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from remat.probe.target.calls import Callee
    from remat.probe.target.loading import File

_METHODS = {"get", "items", "keys", "values", "pop", "copy", "update", "to_dict", "setdefault"}
_SUFFIXES = {".json", ".yaml", ".yml"}
_NAMING = ("name", "type", "class", "class_name", "model", "arch")
_LARGEST, _DEEPEST = 200_000, 4


class Settings(dict[str, object]):
    """Entries of a file of settings, as attributes too: configurations are read either way."""

    def __getattr__(self, name: str) -> object:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


@dataclass(frozen=True, slots=True)
class Holder:
    """What holds all that a class reads of its configuration. `said`: the file, as the user may name it."""

    make: Callable[[], object]
    said: str
    is_file: bool


def attributes_read(callee: object, name: str, file: File, depth: int = 0) -> frozenset[str]:
    """Return what a class or function reads of its parameter: `a` of `name.a`, `a.b` of `name.a.b`, and of items.

    What it hands the parameter on to is read as well, as far as the file knows it.
    """
    function = getattr(callee, "__init__", callee) if isinstance(callee, type) else callee
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))  # type: ignore[arg-type]
    except (OSError, TypeError, SyntaxError):
        return frozenset()
    paths = {p for n in ast.walk(tree) if isinstance(n, ast.Attribute | ast.Subscript) and (p := _path(n, name))}
    if depth < _DEEPEST:
        for inner, parameter in _handed_on(tree, name, file):
            paths |= attributes_read(inner, parameter, file, depth + 1)
    paths = {".".join(itertools.takewhile(lambda part: part not in _METHODS, p.split("."))) for p in paths} - {""}
    return frozenset(p for p in paths if not any(other.startswith(f"{p}.") for other in paths))


def _handed_on(tree: ast.Module, name: str, file: File) -> Iterator[tuple[object, str]]:
    """Yield what is called with the whole of `name`, and the name of its parameter."""
    for call in (n for n in ast.walk(tree) if isinstance(n, ast.Call)):
        given = [*enumerate(call.args), *((k.arg, k.value) for k in call.keywords)]
        at = next((key for key, value in given if isinstance(value, ast.Name) and value.id == name), None)
        if at is None:
            continue
        try:
            callee = evaluate_in(file, call.func, [])
            parameters = list(inspect.signature(cast("Callee[object]", callee)).parameters)
        except (Exception, SystemExit):  # noqa: BLE001, S112  (any code of the user's)
            continue
        if isinstance(at, str) or at < len(parameters):
            yield callee, at if isinstance(at, str) else parameters[at]


def spelled_settings(wanted: frozenset[str]) -> str:
    """`Namespace(width=…, model=Namespace(depth=…))`, for the user to fill in."""
    firsts = dict.fromkeys(sorted(name.split(".")[0] for name in wanted))
    parts = []
    for first in firsts:
        inner = frozenset(name.removeprefix(f"{first}.") for name in wanted if name.startswith(f"{first}."))
        parts.append(f"{first}={spelled_settings(inner) if inner else '…'}")
    return f"Namespace({', '.join(parts)})"


def holders(wanted: frozenset[str], file: File) -> list[Holder]:
    """Return the settings of the project that have every one of `wanted`, files first; none where nothing is read."""
    if not wanted:
        return []
    covering = [path for path in _files(file) if _covers(path, wanted)]
    files = [Holder(lambda p=p: read_settings(p), _named_from(p, file), is_file=True) for p in covering]  # type: ignore[misc]
    return files or list(_command_lines(wanted, file))


def targets(name: str, file: File) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield what files of settings make a class with: what stands beside its name, or is the `params` of it."""
    naming = re.compile(rf"\b(target_?|{'|'.join(_NAMING)})\"?:.*\b{re.escape(name)}\b")
    for path in _files(file):
        if not naming.search(path.read_text(encoding="utf-8", errors="replace")):
            continue
        try:
            value = read_settings(path)
        except Exception:  # noqa: BLE001, S112  (a file in another dialect is no settings of ours)
            continue
        yield from ((_named_from(path, file), params) for params in _made_in(value, name))


def _made_in(value: object, name: str) -> Iterator[dict[str, object]]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if isinstance(value, dict):
        if str(value.get("target", "")).endswith(f".{name}"):
            yield dict(cast("dict[str, object]", value.get("params") or {}))
        elif str(value.get("_target_", "")).endswith(f".{name}"):
            yield {key: entry for key, entry in value.items() if not key.startswith("_")}
        elif any(value.get(key) == name for key in _NAMING):  # beside what it is made with
            yield {key: entry for key, entry in value.items() if value.get(key) != name}
    for entry in inner:
        yield from _made_in(entry, name)


def read_settings(path: Path) -> object:
    """Read a JSON or YAML file. Raises FactMissingError where it can't be."""
    try:
        text = path.read_text(encoding="utf-8")
        value = json.loads(text) if path.suffix == ".json" else _yaml(text)
    except (OSError, ValueError, ImportError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise FactMissingError(f"{path} can't be read ({reason})", "give another file") from error
    return _settings(value)


def named_settings(name: str, file: File) -> object:
    """Read the settings that `config=` of a probe comment names, from beside its file or a folder of the project."""
    for folder in (file.path.parent, *file.project.folders, Path.cwd()):
        if (folder / name).is_file():
            return read_settings(folder / name)
    raise FactMissingError(f"{name}, which `config=` names, is not there", f"give its path, from {file.path.parent}")


def _named_from(path: Path, file: File) -> str:
    """Name a file as `config=` finds it."""
    folder = next((f for f in (file.path.parent, *file.project.folders) if path.is_relative_to(f)), None)
    return str(path.relative_to(folder)) if folder is not None else str(path)


def _settings(value: object) -> object:
    if isinstance(value, dict):
        return Settings({str(key): _settings(inner) for key, inner in value.items()})
    return [_settings(item) for item in value] if isinstance(value, list) else value


def _yaml(text: str) -> object:
    return cast("Callee[object]", importlib.import_module("yaml").safe_load)(text)


def _files(file: File) -> list[Path]:
    found = {
        path
        for folder in project_folders(file)
        for path in folder.iterdir()
        if path.suffix in _SUFFIXES and path.is_file() and path.stat().st_size < _LARGEST
    }
    return sorted(found, key=lambda path: (len(path.parts), path))


def _covers(path: Path, wanted: frozenset[str]) -> bool:
    text = path.read_text(encoding="utf-8", errors="replace")
    if not all(part in text for name in wanted for part in name.split(".")):
        return False
    try:
        return _has_all(read_settings(path), wanted)
    except Exception:  # noqa: BLE001  (a file in another dialect is no settings of ours)
        return False


def _has_all(value: object, wanted: frozenset[str]) -> bool:
    return all(_has(value, name.split(".")) for name in wanted)


def _has(value: object, path: list[str]) -> bool:
    if not path:
        return True
    entries = value if isinstance(value, dict) else vars(value) if isinstance(value, Namespace) else {}
    return path[0] in entries and _has(cast("Mapping[str, object]", entries)[path[0]], path[1:])


def _command_lines(wanted: frozenset[str], file: File) -> Iterator[Holder]:
    """Yield the options of scripts, with their defaults, that have every one of `wanted`."""
    for path in files_near(file):
        text = text_of(path) if path.stat().st_size < _LARGEST else ""
        if "parse_args(" not in text or not all(name in text for name in wanted):
            continue
        try:
            tree = ast.parse(text)
            script = file if path == file.path else file.project.file(path)
        except (Exception, SystemExit):  # noqa: BLE001, S112  (any code of the user's)
            continue
        calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and dotted(n.func).endswith("parse_args")]
        for call in calls:
            scopes = scopes_around(tree, call)

            def options(script: File = script, call: ast.Call = call, scopes: list = scopes) -> object:  # type: ignore[type-arg]
                return evaluate_in(script, call, scopes)

            try:
                options_there = options()
            except (Exception, SystemExit):  # noqa: BLE001, S112
                continue
            if _has_all(options_there, wanted):
                yield Holder(options, str(path), is_file=False)


def _path(node: ast.expr, name: str) -> str:
    """`a.b` of `name.a.b` and `name["a"]["b"]`; an empty text for any other expression."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute | ast.Subscript):
        if isinstance(node, ast.Attribute):
            parts.append(node.attr)
        elif isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
            parts.append(node.slice.value)
        else:
            parts.clear()
        node = node.value
    return ".".join(reversed(parts)) if isinstance(node, ast.Name) and node.id == name else ""
