"""Each use of torch's `checkpoint` in a file, in whatever spelling: what is wrapped, and which variant it asks for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import libcst as cst

from remat.lint.code.definitions import definitions, values_of
from remat.lint.code.names import PARTIAL, UNKNOWN, is_static_method
from remat.lint.code.source import Call
from remat.lint.code.syntax import dotted, is_literal, string_value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remat.lint.code.source import Source

_MODULE = "torch.utils.checkpoint"
CHECKPOINT = f"{_MODULE}.checkpoint"
SEQUENTIAL = f"{_MODULE}.checkpoint_sequential"
CHECKPOINTS = (CHECKPOINT, SEQUENTIAL)
_WRAPPERS = "torch.distributed.algorithms._checkpoint.checkpoint_wrapper"
WRAP, APPLY = f"{_WRAPPERS}.checkpoint_wrapper", f"{_WRAPPERS}.apply_activation_checkpointing"
REENTRANT_IMPL = f"{_WRAPPERS}.CheckpointImpl.REENTRANT"
PARTIAL_CALLS = ("functools.partial", "functools.partialmethod")

# torch/utils/checkpoint.py, signature of `checkpoint`, 2.1 to 2.14 (`early_stop` since 2.9, the last since 2.14)
OWN_KEYWORDS = frozenset(
    [
        "function",
        "use_reentrant",
        "preserve_rng_state",
        "context_fn",
        "determinism_check",
        "debug",
        "early_stop",
        "respect_saved_tensors_hooks",
    ]
)
# `checkpoint_sequential(functions, segments, input, use_reentrant=None, **kwargs)` pops preserve_rng_state of the rest
SEQUENTIAL_KEYWORDS = frozenset({"functions", "segments", "input", "use_reentrant", "preserve_rng_state"})


class Variant(Enum):
    OMITTED = "not said: reentrant up to torch 2.14"
    REENTRANT = "use_reentrant=True"
    NON_REENTRANT = "use_reentrant=False"
    UNKNOWN = "said, but not by a value that can be read here"


class Form(Enum):
    CALL = "checkpoint(f, x)"
    PARTIAL = "functools.partial(checkpoint, …)"
    PARTIAL_CALL = "run(f, x) after run = functools.partial(checkpoint, …)"


@dataclass(frozen=True, slots=True)
class Checkpointing:
    """`certain`: the name can only be torch's. `said`: the argument that chooses the variant, None included."""

    call: Call
    form: Form
    certain: bool
    sequential: bool
    variant: Variant
    said: cst.Arg | None
    forwarded: tuple[cst.Arg, ...]  # keywords that go to the wrapped callable, not to checkpoint
    wrapped: cst.Arg | None

    @property
    def function(self) -> str:
        """What it is called in messages."""
        return "checkpoint_sequential" if self.sequential else "checkpoint"


def checkpointings(source: Source) -> list[Checkpointing]:
    """Every use of torch's two functions, in source order per form."""
    return source.once(_all_uses)


def _all_uses(source: Source) -> list[Checkpointing]:
    return [] if _replaced(source) else list(_uses(source))


def _replaced(source: Source) -> bool:
    """Whether the file puts a function of its own in the place of torch's: `torch.utils.checkpoint.checkpoint = …`."""
    return any(
        type(place := target.target) is cst.Attribute
        and f"{_MODULE}.{place.attr.value}" in CHECKPOINTS
        and _MODULE in source.meanings(place.value, at.scope, at.place)
        for at in source.nodes(cst.Assign)
        for target in at.node.targets
    )


def _uses(source: Source) -> Iterator[Checkpointing]:
    for call in source.calls(*CHECKPOINTS):
        yield _read(source, call, Form.CALL, list(call.node.args))
    for call in source.calls(*PARTIAL_CALLS):
        made = source.meanings(call.node, call.scope, call.place)
        names = frozenset(n.removeprefix(PARTIAL) for n in made)
        if names & set(CHECKPOINTS):
            bound = Call(call.node, call.scope, call.place, names)
            yield _read(source, bound, Form.PARTIAL, list(call.node.args[1:]))
    for call in source.calls(*(PARTIAL + name for name in CHECKPOINTS)):
        names = frozenset(n.removeprefix(PARTIAL) for n in call.names)
        bound = Call(call.node, call.scope, call.place, names)
        yield _read(source, bound, Form.PARTIAL_CALL, [*_partial_arguments(source, call), *call.node.args])


def _partial_arguments(source: Source, call: Call) -> list[cst.Arg]:
    """The arguments that `functools.partial` has already given, where the assignment is in sight."""
    values = definitions(source, call.node.func, call.scope, call.place)
    made: cst.CSTNode | None = values[0].node if len(values) == 1 else None
    if isinstance(made, cst.Call) and is_static_method(made):
        made = made.args[0].value
    return list(made.args[1:]) if isinstance(made, cst.Call) else []


def _read(source: Source, call: Call, form: Form, args: list[cst.Arg]) -> Checkpointing:
    sequential = SEQUENTIAL in call.names and CHECKPOINT not in call.names
    own = SEQUENTIAL_KEYWORDS if sequential else OWN_KEYWORDS
    positional = [a for a in args if a.keyword is None and a.star != "**"]
    keywords = {a.keyword.value: a for a in args if a.keyword is not None}
    said = keywords.get("use_reentrant")
    if said is None and sequential and len(positional) > 3 and not any(a.star for a in positional[:4]):
        said = positional[3]
    hidden = any(
        (a.star == "**" and not _only_sets(source, call, a.value, own)) or (sequential and a.star == "*") for a in args
    )
    return Checkpointing(
        call,
        form,
        certain=call.names <= set(CHECKPOINTS) and UNKNOWN not in call.names,
        sequential=sequential,
        variant=_variant(source, call, said, hidden=hidden),
        said=said,
        forwarded=tuple(a for name, a in keywords.items() if name not in own),
        wrapped=positional[0] if positional and not positional[0].star else keywords.get("function"),
    )


def _only_sets(source: Source, call: Call, unpacked: cst.BaseExpression, own: frozenset[str]) -> bool:
    """Whether `**unpacked` is a dict in sight that says nothing of the variant, nor forwards a keyword.

    Where a name holds it, the name is bound once and stands nowhere else but behind `**`: nobody adds to it.
    """
    found: list[cst.CSTNode] = [unpacked]
    if isinstance(unpacked, cst.Name):
        found = [at.node for at in definitions(source, unpacked, call.scope, call.place)]
        uses = re.findall(rf"(\*\*)?\b{unpacked.value}\b", source.text)
        if len(found) != 1 or uses.count("") != 1:
            return False
    keys = _keys(found[0])
    return keys is not None and keys <= own - {"use_reentrant", "function", "functions", "input", "segments"}


def _keys(mapping: cst.CSTNode) -> set[str] | None:
    """The keys of `{"a": 1}` or `dict(a=1)`; None where they are not all seen."""
    if isinstance(mapping, cst.Dict):
        keys = [string_value(e.key) if isinstance(e, cst.DictElement) else None for e in mapping.elements]
    elif isinstance(mapping, cst.Call) and dotted(mapping.func) == ["dict"]:
        keys = [a.keyword.value if a.keyword is not None else None for a in mapping.args]
    else:
        return None
    return None if None in keys else {key for key in keys if key is not None}


def _variant(source: Source, call: Call, said: cst.Arg | None, *, hidden: bool) -> Variant:
    if said is None:
        return Variant.UNKNOWN if hidden else Variant.OMITTED
    values = values_of(source, said.value, call.scope, call.place)
    if values and all(is_literal(v, "True") for v in values):
        return Variant.REENTRANT
    if values and all(is_literal(v, "False") for v in values):
        return Variant.NON_REENTRANT
    return Variant.OMITTED if is_literal(said.value, "None") else Variant.UNKNOWN
