"""The sizes of the batch that a model was given, read from its tensors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import nn

    from remat.probe.built import Built, Inputs


@dataclass(slots=True)
class Sizes:
    """Of the last batch. `seq`: of its tokens; None where it holds none, as images do."""

    batch: int | None = None
    seq: int | None = None


def noting_sizes(built: Built, sizes: Sizes) -> Built:
    """The same, whose batches are noted in `sizes`."""

    def make_batch(model: nn.Module, batch: int | None, seq: int | None) -> Inputs:
        inputs = built.make_batch(model, batch, seq)
        sizes.batch, sizes.seq = _sizes(inputs, seq)
        return inputs

    return replace(built, make_batch=make_batch)


def _sizes(inputs: Inputs, asked: int | None) -> tuple[int | None, int | None]:
    """Tokens are integers in rows; a tensor of (batch, sequence, width) counts where nothing else does."""
    leaves = torch.utils._pytree.tree_leaves((inputs.args, inputs.kwargs))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.dim() > 0]
    if not tensors:
        return None, asked
    rows = [t for t in tensors if t.dim() == 2 and not t.is_floating_point() and t.dtype != torch.bool]
    states = [t for t in tensors if t.dim() == 3 and t.is_floating_point()]
    longest = max((t.shape[1] for t in rows or states[:1]), default=asked)
    return int((rows or tensors)[0].shape[0]), None if longest is None else int(longest)
