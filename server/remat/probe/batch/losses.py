"""The loss of a model's output where the user's code names none, chosen by what the output looks like."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import torch
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remat.probe.built import Inputs


def loss_of(output: object, inputs: Inputs) -> torch.Tensor:
    """Return the model's own loss, else one that needs what the usual one would."""
    own = own_loss(output)
    if own is not None:
        return own
    main = main_output(output)
    ids = _ids(inputs)
    if ids is not None and main.dim() == 3 and main.shape[:2] == ids.shape and main.shape[-1] > 1:
        return functional.cross_entropy(main.flatten(0, 1), ids.flatten() % main.shape[-1])
    if main.dim() == 2 and main.shape[-1] > 1:
        classes = torch.zeros(main.shape[0], dtype=torch.int64, device=main.device)
        return functional.cross_entropy(main, classes)
    if _is_like_an_input(main, inputs):
        return functional.mse_loss(main, torch.zeros_like(main))
    if _says_of_each_point(main, inputs):
        if main.shape[1] == 1:
            return functional.binary_cross_entropy_with_logits(main, torch.zeros_like(main))
        points = torch.zeros((main.shape[0], *main.shape[2:]), dtype=torch.int64, device=main.device)
        return functional.cross_entropy(main, points)
    return main.mean()


def described(output: object, inputs: Inputs) -> str:
    """Say which loss `loss_of` takes, as an assumption; an empty text where it is the model's own."""
    if own_loss(output) is not None or any(t.dim() == 0 for t in _tensors(output)):
        return ""
    main = main_output(output)
    ids = _ids(inputs)
    shape = _shape(main, ids, inputs)
    if (ids is not None and main.dim() == 3 and main.shape[:2] == ids.shape and main.shape[-1] > 1) or (
        main.dim() == 2 and main.shape[-1] > 1
    ):
        how = f"cross-entropy over the output {shape}"
    elif _is_like_an_input(main, inputs):
        how = f"mean squared error of the output {shape}"
    elif _says_of_each_point(main, inputs):
        how = f"{'binary ' if main.shape[1] == 1 else ''}cross-entropy over the points of the output {shape}"
    else:
        how = f"the mean of the output {shape}"
    return f"the loss is {how}{_beside(output, main)}; say it with loss= in a probe comment"


def _beside(output: object, main: torch.Tensor) -> str:
    """What else could be learnt of: the user alone knows whether it is."""
    others = sum(t.is_floating_point() and t is not main for t in _tensors(output))
    return f" alone, not over the {others} other output{'s' if others > 1 else ''}" if others else ""


def _shape(main: torch.Tensor, ids: torch.Tensor | None, inputs: Inputs) -> str:
    """As inputs are told: `[batch, seq, 512]`; the sizes of the trial are not those of the step."""
    sides: list[object] = list(main.shape)
    if any(t.dim() > 0 and t.shape[0] == main.shape[0] for t in _tensors((inputs.args, inputs.kwargs))):
        sides[0] = "batch"
    if ids is not None and main.dim() == 3 and main.shape[:2] == ids.shape:
        sides[1] = "seq"
    return f"[{', '.join(map(str, sides))}]"


def own_loss(output: object) -> torch.Tensor | None:
    """Return the loss in the output: an attribute or entry `loss`, else the first scalar that has a gradient.

    A mapping of nothing but losses, as detection models return it, is summed.
    """
    named = output.get("loss") if isinstance(output, dict) else getattr(output, "loss", None)
    if isinstance(named, torch.Tensor):
        return named if named.dim() == 0 else named.mean()
    scalars = [t for t in _tensors(output) if t.dim() == 0 and t.is_floating_point()]
    parts = list(output.values()) if isinstance(output, dict) else []
    if len(parts) > 1 and len(scalars) == len(parts) and all(t.requires_grad for t in scalars):
        return torch.stack(scalars).sum()
    return scalars[0] if scalars and scalars[0].requires_grad else None


def main_output(output: object) -> torch.Tensor:
    """Return the tensor that a loss is taken of: the logits, else the first floating one with a gradient."""
    for name in ("logits", "prediction_logits", "last_hidden_state", "sample", "out"):
        named = output.get(name) if isinstance(output, dict) else getattr(output, name, None)
        if isinstance(named, torch.Tensor):
            return named
    floats = [t for t in _tensors(output) if t.is_floating_point()]
    with_gradient = [t for t in floats if t.requires_grad]
    if not floats:
        raise ValueError(f"expected a tensor or a loss among what the model returns, got {type(output).__name__}")
    return (with_gradient or floats)[0]


def _is_like_an_input(main: torch.Tensor, inputs: Inputs) -> bool:
    given = (*inputs.args, *inputs.kwargs.values())
    return any(isinstance(t, torch.Tensor) and t.shape == main.shape for t in given)


def _says_of_each_point(main: torch.Tensor, inputs: Inputs) -> bool:
    """Tell whether the output has a score, or one a class, for each point of a picture or volume that is given."""
    given = (t for t in (*inputs.args, *inputs.kwargs.values()) if isinstance(t, torch.Tensor))
    return main.dim() > 3 and any(t.dim() == main.dim() and t.shape[2:] == main.shape[2:] for t in given)


def _tensors(output: object) -> Iterator[torch.Tensor]:
    for leaf in torch.utils._pytree.tree_leaves(output):
        if isinstance(leaf, torch.Tensor):
            yield leaf
        elif hasattr(leaf, "to_tuple"):
            yield from _tensors(leaf.to_tuple())
        elif hasattr(leaf, "__dict__") and not isinstance(leaf, type):  # a batch of the user's own: tensors and a mask
            yield from (value for value in vars(leaf).values() if isinstance(value, torch.Tensor))


def _ids(inputs: Inputs) -> torch.Tensor | None:
    for value in (*inputs.args, *inputs.kwargs.values()):
        if isinstance(value, torch.Tensor) and value.dtype == torch.int64 and value.dim() == 2:
            return cast("torch.Tensor", value)
    return None
