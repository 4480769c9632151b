"""Packed sequences on fake tensors: their lengths have no values, so all of them are taken to be full."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, cast

import torch
from torch import _VF, nn
from torch.nn.utils.rnn import PackedSequence

from remat.probe.target.building import outside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from remat.probe.target.calls import Callee

_ASSUMED = "sequences that are packed all have the full length"


@contextlib.contextmanager
def packed_sequences(assume: Callable[[str], None]) -> Iterator[None]:
    """Inside it sequences are packed without their lengths, and recurrent layers run on packed ones as on others."""
    with contextlib.ExitStack() as undo:
        for holder, name, value in (
            (_VF, "_pack_padded_sequence", _packing(assume, cast("Callee[object]", _VF._pack_padded_sequence))),
            (_VF, "_pad_packed_sequence", _padding(cast("Callee[object]", _VF._pad_packed_sequence))),
            *(
                (kind, "forward", _unpacking(cast("Callee[object]", kind.forward)))
                for kind in (nn.LSTM, nn.GRU, nn.RNN)
            ),
        ):
            undo.callback(setattr, holder, name, getattr(holder, name))
            setattr(holder, name, value)
        yield


def _packing(assume: Callable[[str], None], pack: Callee[object]) -> Callee[object]:
    def full(padded: torch.Tensor, lengths: torch.Tensor, batch_first: object) -> object:
        if not _is_fake(lengths) and not _is_fake(padded):
            return pack(padded, lengths, batch_first)
        assume(_ASSUMED)
        steps_first = padded.transpose(0, 1) if batch_first else padded
        with outside():
            sizes = torch.full((steps_first.shape[0],), steps_first.shape[1])
        return steps_first.flatten(0, 1), sizes

    return cast("Callee[object]", full)


def _padding(pad: Callee[object]) -> Callee[object]:
    def padded(data: torch.Tensor, sizes: torch.Tensor, batch_first: object, *rest: object) -> object:
        if not _is_fake(data):
            return pad(data, sizes, batch_first, *rest)
        steps, samples = _steps_and_samples(sizes, data)
        whole = data.unflatten(0, (steps, samples)).clone()
        return whole.transpose(0, 1) if batch_first else whole, torch.full((samples,), steps)

    return cast("Callee[object]", padded)


def _unpacking(forward: Callee[object]) -> Callee[object]:
    """The layer on the padded sequence, and its output packed again."""

    def unpacked(layer: nn.RNNBase, given: object, state: object = None) -> object:
        if not isinstance(given, PackedSequence) or not _is_fake(given.data):
            return forward(layer, given, state)
        steps_first = given.data.unflatten(0, _steps_and_samples(given.batch_sizes, given.data))
        out, last = cast(
            "tuple[torch.Tensor, object]",
            forward(layer, steps_first.transpose(0, 1) if layer.batch_first else steps_first, state),
        )
        steps_first = out.transpose(0, 1) if layer.batch_first else out
        indices = given.sorted_indices, given.unsorted_indices
        return PackedSequence(steps_first.flatten(0, 1), given.batch_sizes, *indices), last

    return cast("Callee[object]", unpacked)


def _steps_and_samples(sizes: torch.Tensor, data: torch.Tensor) -> tuple[int, int]:
    steps = sizes.shape[0]
    return steps, data.shape[0] // steps


def _is_fake(tensor: torch.Tensor) -> bool:
    return isinstance(tensor, torch._subclasses.FakeTensor)
