"""Writes models for one test each, and asks what they were given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from asking import result, write

if TYPE_CHECKING:
    from pathlib import Path

    from asking import Ask

HEAD = """
    from typing import Dict, List, Optional
    import torch
    from torch import Tensor, nn

"""


def inputs(ask: Ask, folder: Path, name: str, body: str) -> str:
    """Probe the class `Net` of a file; return what was assumed."""
    write(folder, **{name: HEAD + body})
    return "\n".join(result(ask(folder, f"{name}.py:Net")).assumptions)


def net(takes: str, layers: list[str], steps: list[str]) -> str:
    """Write the class `Net`: the layers it makes, what its forward takes, and its steps."""
    made, done = (f"\n{' ' * 12}".join(lines) for lines in (layers, steps))
    return f"""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            {made}

        def forward(self, {takes}):
            {done}
    """
