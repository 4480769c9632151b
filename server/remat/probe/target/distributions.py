"""What has to be installed for an import: packages are not always named as what they hold."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from remat.probe.built import FactMissingError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remat.probe.messages import Location

INSTALLED = {"site-packages", "dist-packages"}
_NAMED = {
    "PIL": "pillow", "cv2": "opencv-python", "yaml": "pyyaml", "sklearn": "scikit-learn", "skimage": "scikit-image",
    "flash_attn": "flash-attn", "attr": "attrs", "dateutil": "python-dateutil", "tltorch": "tensorly-torch",
    "bs4": "beautifulsoup4",
}  # fmt: skip
_FILES = ("requirements*.txt", "setup.py", "setup.cfg", "pyproject.toml", "environment*.y*ml")
_REQUIREMENT = re.compile(
    r"""(?:^|["'\s-])(?P<name>[A-Za-z][\w.-]*?)\s*(?:\[[\w,-]+\])?\s*(?:[=<>~!]=|[<>;,"'#]|$)""", re.MULTILINE
)


def not_importable(error: ImportError, place: Location, folders: tuple[Path, ...]) -> Exception:
    """Return what to say of an import that failed at `place`; the error itself where nothing is to be installed."""
    name, python = (error.name or "").split(".")[0], sys.executable
    at = f"{place.path}:{place.line}"
    if name and _installed_elsewhere(error):
        what = distribution(name, folders)
        fact = f"what {at} imports of `{name}` is not in the version that is installed ({error.msg})"
        wanted = f'{python} -m pip install "{what}{pinned(what, folders) or "==…"}"'
        return FactMissingError(fact, f"{wanted}, the version that the file is written for", place)
    if not isinstance(error, ModuleNotFoundError) or not name or importlib.util.find_spec(name) is not None:
        return error
    fact = f"`{name}`, which {at} imports, is not installed in {python}"
    return FactMissingError(fact, f"{python} -m pip install {distribution(name, folders)}", place)


def _installed_elsewhere(error: ImportError) -> bool:
    """Tell whether a library is there, and a name or a module of it is not."""
    name = (error.name or "").split(".")[0]
    spec = importlib.util.find_spec(name) if isinstance(error, ModuleNotFoundError) and name != error.name else None
    place = error.path or (spec.origin if spec is not None else None)
    return place is not None and bool(INSTALLED.intersection(Path(place).parts))


def distribution(module: str, folders: tuple[Path, ...]) -> str:
    """Return what to install for a module: what the project's own lists call it, else what it is known as."""
    wanted = _plain(_NAMED.get(module, module))
    listed = list(_listed(folders))
    exact = next((name for name in listed if _plain(name) == wanted), None)
    ending = next((name for name in listed if _plain(name).endswith(f"-{_plain(module)}")), None)
    return exact or ending or _NAMED.get(module, module)


def pinned(name: str, folders: tuple[Path, ...]) -> str:
    """Return the versions that the project asks for, as `==4.8.1`; nothing where it takes any."""
    asked = re.compile(rf"\b{re.escape(name)}\s*(?P<version>[=~<>]=[\d.*]+)", re.IGNORECASE)
    matches = (asked.search(text) for text in _texts(folders))
    return next((match["version"] for match in matches if match), "")


def _listed(folders: tuple[Path, ...]) -> Iterator[str]:
    for text in _texts(folders):
        yield from (match["name"] for match in _REQUIREMENT.finditer(text))


def _texts(folders: tuple[Path, ...]) -> Iterator[str]:
    for folder in folders:
        for path in (p for pattern in _FILES for p in sorted(folder.glob(pattern))):
            yield path.read_text(encoding="utf-8", errors="replace")


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
