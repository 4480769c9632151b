"""Where a layer is handed to gradient checkpointing: torch's function, the file's own wrapper, transformers' method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from remat.lint.checkpointing import WRAP, checkpointings
from remat.lint.code.syntax import Function, dotted, parameters, walk

if TYPE_CHECKING:
    from remat.lint.checkpointing import Checkpointing
    from remat.lint.code.source import Place, Source

LIBRARY_METHOD = "_gradient_checkpointing_func"  # transformers and diffusers set it on the model
INSTALLERS = (
    WRAP,
    "torch.distributed._composable.checkpoint",
    "torch.distributed._composable.checkpoint_activation.checkpoint",
    "fairscale.nn.checkpoint.checkpoint_wrapper",
    "fairscale.nn.checkpoint_wrapper",
    "fairscale.nn.misc.checkpoint_wrapper",
)  # these replace or change a module; whoever calls it later, it is checkpointed


@dataclass(frozen=True, slots=True)
class Sites:
    torch: dict[int, Checkpointing]  # by the id of the call
    installing: frozenset[int]
    wrappers: frozenset[str]  # functions of this file that only pass their argument on to torch's
    places: frozenset[int]  # ids of the places that hold the first two

    def in_text(self, text: str) -> bool:
        """Whether `text` may hold a call of a wrapper or of transformers' method."""
        return any(name in text for name in (LIBRARY_METHOD, *self.wrappers))

    def __call__(self, call: cst.Call) -> bool:
        """Whether what the call is given is checkpointed."""
        if id(call) in self.torch or id(call) in self.installing:
            return True
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == LIBRARY_METHOD:
            return True
        parts = dotted(call.func)
        return bool(parts) and parts[-1] in self.wrappers and parts[:-1] in ([], ["self"])


def sites(source: Source) -> Sites:
    torch = {id(use.call.node): use for use in checkpointings(source)}
    installing = list(source.calls(*INSTALLERS))
    wrappers = frozenset(name for use in torch.values() for name in _wrappers(use.call.place, use))
    places = frozenset(id(call.place) for call in (*(use.call for use in torch.values()), *installing))
    return Sites(torch, frozenset(id(call.node) for call in installing), wrappers, places)


def _wrappers(place: Place, use: Checkpointing) -> list[str]:
    """The functions around `use` that are given what it checkpoints."""
    if use.wrapped is None:
        return []
    found: list[str] = []
    wrapped = use.wrapped.value
    for above in place.parsed.ancestors(use.call.node):
        if isinstance(above, cst.FunctionDef) and not above.name.value.startswith(("forward", "__")):
            given = {p.name.value for p in parameters(above)} - {"self", "cls"}
            if _runs_one_of(wrapped, given, above, place):
                found.append(above.name.value)
    return found


def _runs_one_of(wrapped: cst.BaseExpression, given: set[str], function: cst.FunctionDef, place: Place) -> bool:
    if isinstance(wrapped, cst.Call):
        return any(_runs_one_of(a.value, given, function, place) for a in wrapped.args[:1])
    if isinstance(wrapped, cst.Lambda):
        return _calls(wrapped, given)
    parts = dotted(wrapped)
    if parts and parts[0] in given and parts[1:] in ([], ["forward"], ["__call__"]):
        return True
    named = (n for n, _ in place.parsed.nodes.get(cst.FunctionDef, ()) if isinstance(n, cst.FunctionDef))
    inner = (n for n in named if parts == [n.name.value] and function in place.parsed.ancestors(n))
    return any(_calls(n, given) for n in inner)


def _calls(function: Function, given: set[str]) -> bool:
    called = (dotted(n.func) for n in walk(function.body) if isinstance(n, cst.Call))
    return any(parts[:1] and parts[0] in given for parts in called)
