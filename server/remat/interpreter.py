"""The Python that runs the user's code, as a program that can be started."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from remat.environment import find_environment, interpreter_folders, read_environment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def find_interpreter(start: Path, python: str | None, environ: Mapping[str, str]) -> str:
    """Find the interpreter to run the user's code with, one that has torch. ValueError says what was looked at.

    `python`: an interpreter or an environment's folder that the user chose, which then is the only candidate; else the
    environments in which libraries are looked for, the one on PATH, and the one that runs Remat.
    """
    if python:
        return _chosen(python, environ)
    looked: list[str] = []
    for candidate in dict.fromkeys(_candidates(start, environ)):
        looked.append(candidate)
        if _has_torch(candidate, environ):
            return candidate
    raise ValueError(
        f"found no Python with torch (looked at {', '.join(looked) or 'nothing'}); name it: --python PATH, "
        "or activate its environment"
    )


def _chosen(python: str, environ: Mapping[str, str]) -> str:
    interpreter_folders(python, environ)  # says what is wrong with the path
    path = Path(os.path.expandvars(python)).expanduser()
    if path.is_dir():
        inside = _inside(path)
        if inside is None:
            raise ValueError(f"expected the folder of a Python environment, but {python} holds no bin/python")
        return inside
    return str(path.absolute()) if path.exists() else shutil.which(python, path=environ.get("PATH")) or python


def _candidates(start: Path, environ: Mapping[str, str]) -> Iterator[str]:
    place = find_environment(start, None, environ).place
    for root in filter(None, (place, environ.get("VIRTUAL_ENV"), environ.get("CONDA_PREFIX"))):
        if inside := _inside(Path(root)):
            yield inside
    for name in ("python", "python3"):
        if on_path := shutil.which(name, path=environ.get("PATH")):
            yield on_path
    yield sys.executable


def _inside(root: Path) -> str | None:
    places = (root / "bin" / "python", root / "bin" / "python3", root / "Scripts" / "python.exe", root / "python.exe")
    return next((str(path) for path in places if path.exists()), None)


def _has_torch(python: str, environ: Mapping[str, str]) -> bool:
    try:
        folders = interpreter_folders(python, environ)
    except ValueError:
        return False
    return "torch" in read_environment(folders, python).versions.known
