"""Did checkpointing take effect: what was recomputed, what kept its activations, and why nothing was."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from remat.probe.messages import Kept, Recomputed
from remat.probe.simulated.blocks import repeated_blocks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from torch import nn

    from remat.probe.simulated.checkpoint_calls import Call
    from remat.probe.simulated.log import Log
    from remat.probe.simulated.modules import Modules


def saved_by_module(log: Log) -> dict[str, int]:
    """Bytes of activations that forward left alive for backward, by the innermost module that made them."""
    saved: dict[str, int] = defaultdict(int)
    for index in log.kept:
        allocation = log.allocations[index]
        if allocation.category in {"", "activations"} and allocation.phase == "forward":
            saved[allocation.module] += allocation.bytes
    return saved


def with_submodules(saved: Mapping[str, int]) -> dict[str, int]:
    """The same with each module's bytes counted in the modules around it too."""
    total: dict[str, int] = defaultdict(int)
    for name, size in saved.items():
        parts = name.split(".") if name else []
        for end in range(len(parts) + 1):
            total[".".join(parts[:end])] += size
    return total


def recomputed(modules: Modules) -> tuple[Recomputed, ...]:
    """The outermost modules that ran again."""
    outermost = [name for name in modules.recomputed if not _inside(name, modules.recomputed)]
    groups = _grouped(modules, outermost)
    return tuple(Recomputed(place, kind, len(names)) for (place, kind), names in groups)


def kept(modules: Modules, saved: Mapping[str, int]) -> tuple[Kept, ...]:
    """The blocks, and what is around them, that kept activations; the largest first."""
    total = with_submodules(saved)
    blocks = set(repeated_blocks(modules.model))
    leaves = {name for name in _parts("", modules, blocks) if total.get(name, 0) > 0}
    result = [
        Kept(place, kind, len(names), sum(total[name] for name in names))
        for (place, kind), names in _grouped(modules, leaves)
    ]
    return tuple(sorted(result, key=lambda item: -item.saved_bytes))


def _parts(name: str, modules: Modules, blocks: set[str]) -> Iterator[str]:
    """The model cut into blocks and the parts around them, without what was recomputed."""
    if name in modules.recomputed:
        return
    below = f"{name}." if name else ""
    deeper = any(other.startswith(below) and other != name for other in (*blocks, *modules.recomputed))
    if not deeper or (name in blocks and not any(other.startswith(below) for other in modules.recomputed)):
        yield name
        return
    for child, _ in modules.by_name[name].named_children():
        yield from _parts(f"{below}{child}", modules, blocks)


def _inside(name: str, others: set[str]) -> bool:
    parts = name.split(".") if name else []
    return any(".".join(parts[:end]) in others for end in range(len(parts)))


def _grouped(modules: Modules, names: Iterable[str]) -> list[tuple[tuple[str, str], list[str]]]:
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name in sorted(names, key=list(modules.by_name).index):
        groups[modules.kind(name)].append(name)
    return list(groups.items())


def inactive_because(modules: Modules, calls: Iterable[Call], *, wanted: bool) -> str | None:
    """Why nothing was recomputed although checkpointing was asked for; None when it was not asked for."""
    if modules.recomputed:
        return None
    calls = list(calls)
    if calls:
        return _why_calls_had_no_effect(calls)
    flagged = [name for name, module in modules.by_name.items() if _is_flagged(module)]
    if flagged:
        return _why_flag_had_no_effect(modules, flagged)
    if wanted:
        return "no checkpoint() was called while forward ran"
    return None


def _is_flagged(module: nn.Module) -> bool:
    names = ("gradient_checkpointing", "use_checkpoint", "activation_checkpointing", "grad_checkpointing")
    return any(getattr(module, name, False) is True for name in names)


def _why_calls_had_no_effect(calls: list[Call]) -> str:
    count, where = len(calls), calls[0].module or "the model"
    if not any(call.gradients for call in calls):
        return f"checkpoint() was called {count} times (first for {where}) while gradients were switched off (no_grad)"
    if all(call.reentrant and not call.input_needs_gradient for call in calls):
        return (
            f"reentrant checkpoint() was called {count} times (first for {where}) with inputs that need no gradient: "
            "nothing is recomputed and the parameters inside get no gradient; pass use_reentrant=False"
        )
    return f"checkpoint() was called {count} times (first for {where}), and backward never came through there"


def _why_flag_had_no_effect(modules: Modules, flagged: list[str]) -> str:
    kinds = sorted({type(modules.by_name[name]).__name__ for name in flagged})
    said = ", ".join(kinds[:3])
    asleep = [name for name in flagged if not modules.by_name[name].training]
    if len(asleep) == len(flagged):
        return f"checkpointing is switched on in {said}, but the model is in eval mode: call model.train()"
    return f"checkpointing is switched on in {said}, but no forward reads it: checkpoint() was never called"
