"""Finds what a class reads of its configuration, and the files and command lines of the project that hold all of it."""

from __future__ import annotations

import ast
import contextlib
import importlib
import json
import math
import re
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from remat.probe.built import FactMissingError
from remat.probe.target.call_sites import files_near, project_folders
from remat.probe.target.packages import text_of
from remat.probe.target.scopes import evaluate_in, scopes_around
from remat.probe.target.spelled import literal
from remat.probe.target.statements import dotted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from remat.probe.target.calls import Callee
    from remat.probe.target.loading import File

_METHODS = {"get", "items", "keys", "values", "pop", "copy", "update", "to_dict", "setdefault"}
_SUFFIXES = {".json", ".yaml", ".yml"}
_NAMING = ("name", "type", "class", "class_name", "model", "arch")
_LARGEST, _DEEPEST = 200_000, 4
_MOST_OF_ALL = 0.75  # of what is read: the options of a script that has so much are meant


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


def spelled_settings(wanted: frozenset[str], known: object = None) -> str:
    """`Namespace(width=…, model=Namespace(depth=…))`, for the user to fill in what is not known."""
    firsts = dict.fromkeys(sorted(name.split(".")[0] for name in wanted))
    parts = []
    for first in firsts:
        inner = frozenset(name.removeprefix(f"{first}.") for name in wanted if name.startswith(f"{first}."))
        text = literal(getattr(known, first)) if hasattr(known, first) else None
        parts.append(f"{first}={spelled_settings(inner) if inner else text or '…'}")
    return f"Namespace({', '.join(parts)})"


def holders(wanted: frozenset[str], file: File) -> list[Holder]:
    """Return the settings of the project that have every one of `wanted`, files first; none where nothing is read."""
    if not wanted:
        return []
    covering = [path for path in _files(file) if _covers(path, wanted)]
    files = [Holder(lambda p=p: read_settings(p), _named_from(p, file), is_file=True) for p in covering]  # type: ignore[misc]
    return files or list(_command_lines(wanted, file))


def nearly_all(wanted: frozenset[str], file: File) -> Holder | None:
    """Return the options of the script that has most of `wanted`; those that train before others."""
    least = math.ceil(_MOST_OF_ALL * len(wanted))
    found = list(_command_lines(wanted, file, least))
    found.sort(key=lambda holder: ("train" not in Path(holder.said).name, len(Path(holder.said).parts)))
    return next(iter(found), None)


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


def _command_lines(wanted: frozenset[str], file: File, least: int | None = None) -> Iterator[Holder]:
    """Yield the options of scripts, with their defaults, that have every one of `wanted`, or `least` of them."""
    least = len(wanted) if least is None else least
    for path in files_near(file):
        text = text_of(path) if path.stat().st_size < _LARGEST else ""
        if "add_argument(" not in text or sum(name in text for name in wanted) < least:
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
            if sum(_has(options_there, name.split(".")) for name in wanted) >= least:
                yield Holder(options, str(path), is_file=False)
                break
        else:
            spelt = _spelt_options(tree)
            if sum(name in spelt for name in wanted) >= least:
                yield Holder(lambda spelt=spelt: Namespace(**spelt), str(path), is_file=False)  # type: ignore[misc]


def _spelt_options(tree: ast.Module) -> dict[str, object]:
    """Return options that a file adds to a parser of somebody else's, with the defaults that are written down."""
    spelt: dict[str, object] = {}
    for call in (n for n in ast.walk(tree) if isinstance(n, ast.Call) and dotted(n.func).endswith(".add_argument")):
        named = {keyword.arg: keyword.value for keyword in call.keywords}
        flags = [str(a.value) for a in call.args if isinstance(a, ast.Constant)]
        dest = named.get("dest") or ast.Constant(max(flags, key=len, default="").lstrip("-").replace("-", "_"))
        switch = {"store_true": False, "store_false": True}.get(getattr(named.get("action"), "value", ""))
        default = named.get("default", ast.Constant(switch))
        with contextlib.suppress(ValueError):
            spelt[str(ast.literal_eval(dest))] = ast.literal_eval(default)
    return spelt
