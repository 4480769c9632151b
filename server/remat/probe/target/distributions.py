"""What has to be installed for an import: packages are not always named as what they hold."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_NAMED = {
    "PIL": "pillow", "cv2": "opencv-python", "yaml": "pyyaml", "sklearn": "scikit-learn", "skimage": "scikit-image",
    "flash_attn": "flash-attn", "attr": "attrs", "dateutil": "python-dateutil", "tltorch": "tensorly-torch",
    "bs4": "beautifulsoup4",
}  # fmt: skip
_FILES = ("requirements*.txt", "setup.py", "setup.cfg", "pyproject.toml", "environment*.y*ml")
_REQUIREMENT = re.compile(
    r"""(?:^|["'\s-])(?P<name>[A-Za-z][\w.-]*?)\s*(?:\[[\w,-]+\])?\s*(?:[=<>~!]=|[<>;,"'#]|$)""", re.MULTILINE
)


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
