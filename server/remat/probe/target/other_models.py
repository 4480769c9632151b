"""The models that a script runs beside the one that is probed: a teacher, a critic, an encoder that is not trained."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import nn
from torch._subclasses.fake_tensor import FakeTensor

from remat.probe.target.building import building
from remat.probe.target.model_lines import call_on, models_made
from remat.probe.target.scopes import evaluate_in, scopes_around
from remat.probe.target.statements import dotted
from remat.probe.target.unwritten import nothing_written

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from remat.probe.target.loading import File


def is_fake(model: nn.Module) -> bool:
    """Tell whether models cost nothing to make here."""
    return any(isinstance(p, FakeTensor) or p.device.type == "meta" for p in model.parameters())


@dataclass(frozen=True, slots=True)
class Other:
    """`counted`: bytes of its parameters, where no optimizer of the script trains it."""

    said: str
    counted: int


def other_models(
    file: File, tree: ast.Module, call: ast.Call, own: Collection[str], trained: Collection[str]
) -> Iterator[Other]:
    """`own`: the names of the one that is probed, which `call` makes. `trained`: those that optimizers are for."""
    ran = {dotted(n.func) for n in ast.walk(tree) if isinstance(n, ast.Call)}
    for name, line in models_made(file, tree).items():
        if name in own or name not in ran or call.lineno <= line <= (call.end_lineno or call.lineno):
            continue
        size = _parameter_bytes(file, tree, line)
        text = f"`{name}`, which {file.path.name}:{line} makes, is another model: "
        if size is None or name in trained:
            of = "" if size is None else f" ({size / 2**20:.1f} MiB of parameters)"
            yield Other(f"{text}it is not counted{of}", 0)
        else:
            yield Other(
                f"{text}its {size / 2**20:.1f} MiB of parameters are counted with buffers, not its forward", size
            )


def _parameter_bytes(file: File, tree: ast.Module, line: int) -> int | None:
    made = call_on(file, tree, line)
    if made is None:
        return None
    try:
        with nothing_written(), building():
            model = evaluate_in(file, made, scopes_around(tree, made))
    except (Exception, SystemExit):  # noqa: BLE001  (any code of the user's)
        return None
    return sum(p.numel() * p.element_size() for p in model.parameters()) if isinstance(model, nn.Module) else None
