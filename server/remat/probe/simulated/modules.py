"""Which module is running, and which ran again during backward."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING

from torch.nn.modules import module as torch_module

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import nn

    from remat.probe.simulated.trace import Trace


class Modules:
    """The modules of one model by name, and what was seen of them."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.by_name = dict(model.named_modules())
        self.recomputed: set[str] = set()
        self._names = {id(module): name for name, module in self.by_name.items()}

    def name(self, module: nn.Module | None) -> str | None:
        return None if module is None else self._names.get(id(module))

    def kind(self, name: str) -> tuple[str, str]:
        """Modules of the same kind have the same answer: the name with `*` for numbers, and the class."""
        return pattern(name), class_name(self.by_name[name])


def class_name(module: nn.Module) -> str:
    """The class as it was written: `fully_shard` puts one of its own before it."""
    names = [kind.__name__ for kind in type(module).__mro__]
    return names[names.index("FSDPModule") + 1] if "FSDPModule" in names else names[0]


def pattern(name: str) -> str:
    return re.sub(r"(?<![^.])\d+(?![^.])", "*", name)


@contextlib.contextmanager
def watching(trace: Trace, modules: Modules) -> Iterator[None]:
    """Inside it the trace knows which module is running."""

    def enter(module: nn.Module, _args: object) -> None:
        name = modules.name(module)
        if name is None:
            return
        trace.modules.append(name)
        if trace.phase == "backward":
            modules.recomputed.add(name)

    def leave(module: nn.Module, _args: object, _out: object) -> None:
        name = modules.name(module)
        if name is not None and trace.modules and trace.modules[-1] == name:
            trace.modules.pop()

    handles = (
        torch_module.register_module_forward_pre_hook(enter),
        torch_module.register_module_forward_hook(leave, always_call=True),
    )
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
