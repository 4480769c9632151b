"""Whether another file of the project turns the KV cache off: a function given the model, or a configuration."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from remat.lint.project import Fact

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remat.lint.project import Project

_READS_CONFIG_FILES = re.compile(r"\byaml\b|OmegaConf|\bhydra\b|\bjson\.load")
_IMPORTS = re.compile(
    r"(?m)^[ \t]*(?:from[ \t]+([.\w]+)[ \t]+import[ \t]+(?:\(([^)]*)\)|([^\n(]*))|import[ \t]+([.\w]+))"
)
_ARGUMENTS = r"(?:\.\w+)*\s*\((?:[^()]|\([^()]*\))*?"


def turned_off_elsewhere(text: str, model: str | None, project: Project) -> bool:
    """`model`: how the file calls what it trains. Read from the text, since a call of no interest is not parsed."""
    summaries = [s for s in project.summaries if Fact.CACHE_OFF in s.facts]
    if any(not s.path.endswith((".py", ".pyi")) for s in summaries) and _READS_CONFIG_FILES.search(text):
        return True
    if not summaries:
        return False
    models = "|".join(sorted({re.escape(name) for name in (model, "model") if name}))
    given = rf"{_ARGUMENTS}(?<![.\w])(?:{models})(?![.\w(])"
    return any(
        project.imported_says(Fact.CACHE_OFF, [module])
        and any(re.search(rf"\b{re.escape(name)}{given}", text) for name in names)
        for module, names in _imported(text)
    )


def _imported(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each imported module with the names it gives to this file."""
    for match in _IMPORTS.finditer(text):
        names = re.sub(r"\w+\s+as\s+|#[^\n]*", "", match[2] or match[3] or match[4])
        yield match[1] or match[4], re.findall(r"\w+", names)
