"""How a script's model got on after it was made: which lines were followed, and which were not."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from remat.probe.target.whereabouts import PLACE

if TYPE_CHECKING:
    from remat.probe.target.loading import File

_LONGEST = 60


@dataclass(slots=True)
class Course:
    """How a script's model got on: what was followed, what was not, and what is said of it. `names`: what the model is
    called, by the line of each function that it is followed in; 0: at the top.
    """

    file: File
    done: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    beside: list[str] = field(default_factory=list)
    has_switch: bool = False
    names: dict[int, str] = field(default_factory=dict)

    def sentences(self) -> tuple[str, ...]:
        followed = [f"the model is changed as the script does it: {', '.join(self.done)}"] if self.done else []
        return tuple(dict.fromkeys((*followed, *self.beside, *self.left)))

    def at(self, node: ast.AST) -> str:
        return f"{self.file.path.name}:{getattr(node, 'lineno', 0)}"

    def do(self, node: ast.AST) -> None:
        text = f"{self.at(node)} `{_shown(node)}`"
        if text not in self.done:
            self.done.append(text)

    def leave(self, node: ast.AST, why: str) -> None:
        self.left.append(f"{self.at(node)} is not followed: `{_shown(node)}` {why}")

    def say(self, node: ast.AST, what: str) -> None:
        self.beside.append(f"{self.at(node)} `{_shown(node)}`: {what}")


def _shown(node: ast.AST) -> str:
    text = ast.unparse(node).replace(PLACE, "…")
    line = " ".join(part.strip() for part in text.splitlines())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
