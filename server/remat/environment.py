"""The library versions of the user's environment, read from what is installed there, never by running code."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version

from remat.libraries import LIBRARIES
from remat.roots import folders_to_root
from remat.versions import Versions, canonical

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_INSTALLED = re.compile(r"(?P<name>[A-Za-z][\w.-]*?)(?:-(?P<version>\d[^-]*?))?(?:-py\d[\d.]*)?\.(?:dist|egg)-info")
_PYTHON = re.compile(r"python(\d+\.\d+)t?")


@dataclass(frozen=True, slots=True)
class Environment:
    """What is installed where the user's code runs."""

    versions: Versions = field(default_factory=Versions)
    place: str | None = None  # the interpreter or folder it was read from
    stamps: tuple[tuple[str, int], ...] = ()  # each folder of packages with its time of change

    def is_current(self) -> bool:
        """Tell whether nothing was installed or removed since it was read."""
        return self.stamps == tuple(_stamp(folder) for folder, _ in self.stamps)


def find_environment(
    start: Path, python: str | None, environ: Mapping[str, str], read: dict[str, Environment] | None = None
) -> Environment:
    """Read the first environment that holds a library Remat asks for.

    `start`: the file or folder that is analysed. `python`: the interpreter that the user chose, which then is the only
    candidate; ValueError where it does not exist. `read` keeps what was read, for the next call of the same scan.
    """
    read = {} if read is None else read
    if python:
        if python not in read:
            read[python] = read_environment(interpreter_folders(python, environ), python)
        return read[python]
    for root in map(str, _candidates(start, environ)):
        if root not in read:
            read[root] = read_environment(package_folders(Path(root), environ), root)
        if read[root].versions.known:
            return read[root]
    return Environment()


def layered(*layers: Versions) -> Versions:
    """Join what several sources say; for each library the first that knows it is right."""
    known: dict[str, Version] = {}
    for versions in reversed(layers):
        known.update(versions.known)
    return Versions(known)


def _candidates(start: Path, environ: Mapping[str, str]) -> Iterator[Path]:
    conda = environ.get("CONDA_PREFIX")
    base = environ.get("CONDA_DEFAULT_ENV") == "base"  # active in every shell, so it says little about this project
    if virtual := environ.get("VIRTUAL_ENV"):
        yield Path(virtual)
    if conda and not base:
        yield Path(conda)
    yield from (folder / ".venv" for folder in _project_folders(start))
    if conda and base:
        yield Path(conda)


def _project_folders(start: Path) -> list[Path]:
    """The folders of the project from `start` upwards; that of `start` alone where it is in none."""
    folder = start if start.is_dir() else start.parent
    return list(map(Path, folders_to_root(str(folder)))) or [folder]


def interpreter_folders(python: str, environ: Mapping[str, str]) -> list[Path]:
    """Return the package folders of an interpreter, an environment's folder, or a folder of packages itself.

    Links are followed one at a time: `.venv/bin/python` is one to the system's Python, and belongs to `.venv`.
    """
    path = _existing(python, environ)
    if path.is_dir():
        return package_folders(path, environ)
    for _ in range(40):  # the system's own limit
        roots = [path.parent.parent, path.parent] if path.parent.name in {"bin", "Scripts"} else [path.parent]
        for root in roots:
            if folders := package_folders(root, environ, path.name):
                return folders
        if not path.is_symlink():
            break
        path = path.parent / path.readlink()
    return []


def _existing(python: str, environ: Mapping[str, str]) -> Path:
    path = Path(os.path.expandvars(python)).expanduser()
    if not path.exists() and path.name == python and (on_path := shutil.which(python, path=environ.get("PATH"))):
        path = Path(on_path)
    if not os.path.lexists(path):
        raise ValueError(f"expected a Python interpreter or the folder of an environment, but {python} does not exist")
    if not path.exists():
        raise ValueError(f"{python} is a link to {path.readlink()}, which does not exist")
    return Path(os.path.abspath(path))  # noqa: PTH100  (resolve() would follow the link out of the environment)


def package_folders(root: Path, environ: Mapping[str, str], interpreter: str = "") -> list[Path]:
    """Return the existing folders of packages under an environment's root, in the order that Python searches."""
    if root.name in {"site-packages", "dist-packages"}:
        return [root]
    windows = [root / "Lib" / "site-packages"]
    number = _number(root, interpreter)
    folders = [*windows, *_unix_folders(root, number)]
    config = _pyvenv(root)
    if config is None:
        folders = [*_user_folders(environ, number), *folders] if any(map(Path.is_dir, folders)) else []
    elif config.get("include-system-site-packages", "").lower() == "true" and (home := config.get("home")):
        folders += package_folders(Path(home).parent if Path(home).name == "bin" else Path(home), environ, interpreter)
    unique = {folder.resolve(): folder for folder in reversed(folders) if folder.is_dir()}
    return list(reversed(unique.values()))


def _unix_folders(root: Path, number: str | None) -> Iterator[Path]:
    pattern = f"python{number}" if number else "python3.*"
    for base in (root / "local", root):  # Debian installs for the administrator below /usr/local
        for lib in ("lib", "lib64"):
            versions = sorted((base / lib).glob(pattern), key=lambda folder: _order(folder.name), reverse=True)
            yield from (folder / kind for folder in versions for kind in ("site-packages", "dist-packages"))
            yield base / lib / "python3" / "dist-packages"


def _user_folders(environ: Mapping[str, str], number: str | None) -> list[Path]:
    """`pip install --user` puts packages here, for every interpreter that is in no virtual environment."""
    home = environ.get("HOME")
    if environ.get("PYTHONNOUSERSITE") or not home or number is None:
        return []
    return [Path(home) / ".local" / "lib" / f"python{number}" / "site-packages"]


def _number(root: Path, interpreter: str) -> str | None:
    """Find out which Python an environment has (`3.11`), where several stand side by side."""
    names = [interpreter]
    for name in (interpreter or "python3", "python3", "python"):
        link = root / "bin" / name
        names += [link.resolve().name] if link.exists() else []
    config = _pyvenv(root) or {}
    names += [f"python{config[key]}" for key in ("version", "version_info") if key in config]
    return next((match[1] for match in map(_PYTHON.match, names) if match), None)


def _pyvenv(root: Path) -> dict[str, str] | None:
    try:
        lines = (root / "pyvenv.cfg").read_text("utf-8", "replace").splitlines()
    except OSError:
        return None
    pairs = (line.partition("=") for line in lines)
    return {key.strip().lower(): value.strip() for key, _, value in pairs}


def _order(name: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", name))


def read_environment(folders: list[Path], place: str) -> Environment:
    """Read which of the libraries are installed in `folders`; one in front hides the same further back."""
    known: dict[str, Version] = {}
    for folder in folders:
        for name, version in _installed(folder).items():
            known.setdefault(name, version)
    return Environment(Versions(known), place, tuple(_stamp(str(folder)) for folder in folders))


def _installed(folder: Path) -> dict[str, Version]:
    found: dict[str, Version] = {}
    ages: dict[str, float] = {}
    try:
        names = os.listdir(folder)  # noqa: PTH208  (thousands of names, no Path for each)
    except OSError:
        return found
    for entry in names:
        match = _INSTALLED.fullmatch(entry)
        name = canonical(match["name"]) if match else ""
        if match is None or name not in LIBRARIES:
            continue
        version = _version(match["version"] or _stated_version(folder / entry))
        age = _changed(folder / entry)
        if version is not None and age >= ages.get(name, 0):  # an interrupted upgrade leaves two: the newer one holds
            found[name], ages[name] = version, age
    return found


def _stated_version(info: Path) -> str:
    """Read the version inside, where the folder's name does not tell: an egg-info of `setup.py develop`."""
    for path in (info / "PKG-INFO", info / "METADATA", info):
        try:
            text = path.read_text("utf-8", "replace")
        except OSError:
            continue
        line = re.search(r"^Version: *(\S+)", text, re.MULTILINE)
        return line[1] if line else ""
    return ""


def _version(text: str) -> Version | None:
    try:
        return Version(text.replace("_", "+", 1) if "+" not in text else text)
    except InvalidVersion:
        return None


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _stamp(folder: str) -> tuple[str, int]:
    try:
        return folder, os.stat(folder).st_mtime_ns  # noqa: PTH116
    except OSError:
        return folder, 0
