"""What the other files of a project say, as far as a rule needs it: a few facts per file, read without parsing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class Fact(Enum):
    ZERO3 = "DeepSpeed ZeRO stage 3 is configured"
    PEFT = "adapters are trained with PEFT"
    FSDP2 = "parameters are sharded with fully_shard"
    CACHE_OFF = "use_cache=False is set"


_PYTHON = {
    Fact.ZERO3: r"""["']stage["']\s*:\s*3\b|zero_stage\s*=\s*3\b""",
    Fact.PEFT: r"(?m)^\s*(?:from|import)\s+peft\b|\bget_peft_model\b",
    Fact.FSDP2: r"\bfully_shard\s*\(",
    Fact.CACHE_OFF: r"""\buse_cache["']?\]?\s*[=:,]\s*(?:False|not\b)""",
}
_CONFIG = {
    Fact.ZERO3: r"""["']?stage["']?\s*:\s*3\b|\bzero_stage\s*:\s*3\b|\bz(?:ero)?_?3[\w.-]*\.json\b""",
    Fact.PEFT: r"(?m)^\s*(?:adapter\s*:\s*[\"']?q?lora|lora_(?:r|rank|alpha)\s*:|finetuning_type\s*:\s*lora"
    r"|use_peft\s*:\s*true)",
    Fact.FSDP2: r"\bfsdp_version[\"']?\s*:\s*2\b",
    Fact.CACHE_OFF: r"""\buse_cache["']?\s*:\s*false\b""",
}
_READ = {kind: {f: re.compile(p) for f, p in facts.items()} for kind, facts in (("py", _PYTHON), ("", _CONFIG))}


@dataclass(frozen=True, slots=True)
class Summary:
    """What one file says. `path` is POSIX, relative to the project."""

    path: str
    facts: frozenset[Fact]


def summarise(path: str, text: str) -> Summary:
    """Read a JSON or YAML configuration; anything else is Python, such as a script without a suffix."""
    patterns = _READ["" if path.endswith((".json", ".yaml", ".yml")) else "py"]
    return Summary(path, frozenset(fact for fact, pattern in patterns.items() if pattern.search(text)))


@dataclass(frozen=True, slots=True)
class Project:
    """The summaries of the files around the one that is checked."""

    summaries: tuple[Summary, ...] = ()

    def says(self, fact: Fact) -> bool:
        return any(fact in s.facts for s in self.summaries)

    @property
    def adapters_under_zero3(self) -> bool:
        """Whether PEFT adapters are trained under ZeRO-3, where non-reentrant checkpointing fails.

        The frozen parameters are gathered in forward and empty when it is run again.
        """
        return self.says(Fact.ZERO3) and self.says(Fact.PEFT)

    def imported_says(self, fact: Fact, modules: Iterable[str]) -> bool:
        """Whether one of these imported modules (`trainer`, `.models.load`) is a file here that says so."""
        wanted = tuple("/" + module.strip(".").replace(".", "/") for module in modules if module.strip("."))
        return any(
            fact in s.facts and ("/" + s.path.removesuffix(".py").removesuffix("/__init__")).endswith(wanted)
            for s in self.summaries
        )
