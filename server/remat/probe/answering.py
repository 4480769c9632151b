"""What the worker answers for one variant: its estimate, its measurement, or both beside each other."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from remat.probe import calibration
from remat.probe.batch.sizes import Sizes, noting_sizes
from remat.probe.measured.measurable import CannotMeasureError, device_here, why_not
from remat.probe.measured.measure import measure_in_turn
from remat.probe.measured.memory_on_cuda import constants_here
from remat.probe.measured.on_all_ranks import is_of_ranks, measure_ranks
from remat.probe.messages import AS_WRITTEN, Failure, Unmeasured
from remat.probe.ranks.spoken import is_rank
from remat.probe.simulated.estimate import estimated
from remat.probe.simulated.together import Together
from remat.probe.simulated.variants import CannotApplyError
from remat.probe.snapshot import snapshot_of, write_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from remat.probe.built import Built
    from remat.probe.messages import Event, Request, Variant, VariantResult


class Answers:
    """Answers the variants of one request, in their order."""

    def __init__(self, built: Built, request: Request, known: dict[Variant, VariantResult] | None = None) -> None:
        """`known`: estimates made before for such a request, by variants without a name; those made now are added."""
        if request.mode != "estimate" and request.device == "cuda" and request.gpu is None and why_not("cuda") is None:
            request = replace(request, gpu=torch.cuda.get_device_name(device_here("cuda")))
        self._built, self._request = built, request
        self._known = {} if known is None else known
        settled = [_settled(built, variant) for variant in request.variants]
        self._together = Together([variant for variant in settled if replace(variant, name="") not in self._known])

    def of(self, variant: Variant, told: Built, begin_measuring: Callable[[], None]) -> Iterator[Event]:
        """`told`: what is built, saying what it does while it is estimated. Raises what the user's code does, and why
        nothing can be measured, unless an estimate answers already.
        """
        request, asked = self._request, variant
        variant = _settled(self._built, variant)
        expected = self._expected(told, variant)
        if expected is not None:
            expected = _explained(self._built, asked, expected)
        if expected is not None and (request.mode != "measure" or is_of_ranks(variant)):
            yield expected
        if request.mode == "estimate":
            return
        try:
            device_here(request.device)
            begin_measuring()
            yield from self._measured(variant, expected)
        except CannotMeasureError as error:
            if request.mode != "auto":
                raise
            yield Unmeasured(variant.name, str(error), error.how)

    def _measured(self, variant: Variant, expected: VariantResult | None) -> Iterator[Event]:
        """One result, or why there is none; of a rank the figures first, in case another never ends its trace."""
        request, file, sizes = self._request, _file(self._request, variant, "measured"), Sizes()
        came: VariantResult | Failure
        if variant.world_size is not None and not is_rank():
            each = replace(request, snapshot=None if file is None else str(file))
            came = measure_ranks(variant, variant.world_size, each, expected)
        else:
            built = noting_sizes(self._built, sizes)
            in_turn = measure_in_turn(built, variant, request.device, request.limits, expected, file)
            noted = (_noted(figures, sizes, built.notes()) for figures in in_turn)
            if is_rank():
                yield from noted
                return
            *_, came = noted
        yield came
        if expected is not None and not isinstance(came, Failure):
            _remember(request, expected, came)

    def _expected(self, told: Built, variant: Variant) -> VariantResult | None:
        """The estimate; None where only a measurement is wanted and the model can't be estimated."""
        request = self._request
        if is_rank():
            return None
        plain = replace(variant, name="")
        if plain in self._known and request.snapshot is None:
            return replace(self._known[plain], name=variant.name)
        try:
            simulated = self._together.simulate(told, variant, request.device, request.gpu)
        except Exception as error:
            if request.mode != "measure" or (is_of_ranks(variant) and isinstance(error, CannotApplyError)):
                raise
            return None
        traced = simulated.traced
        file = _file(request, variant, "estimated")
        if file is not None and request.mode != "measure":
            write_snapshot(snapshot_of(traced.log, request.device, "estimated"), file)
        result = estimated(told, variant, traced, request.device, request.gpu)
        self._known[plain] = _noted(result, simulated.sizes, simulated.notes)
        return self._known[plain]


def _settled(built: Built, variant: Variant) -> Variant:
    """What the variant leaves to the target, said."""
    optimizer = variant.optimizer
    if optimizer == AS_WRITTEN and built.make_optimizer is None and built.optimizer is not None:
        optimizer = built.optimizer
    autocast = None if variant.autocast == "none" else variant.autocast or built.autocast
    return replace(variant, autocast=autocast, optimizer=optimizer, grad_accum=variant.grad_accum or built.grad_accum)


def _explained(built: Built, asked: Variant, result: VariantResult) -> VariantResult:
    """With why the target's own settings are what they are, where the variant leaves them to it."""
    left = [
        ("autocast", asked.autocast is None),
        ("optimizer", asked.optimizer == AS_WRITTEN),
        ("grad_accum", asked.grad_accum is None),
    ]
    said = [built.origins[name] for name, is_left in left if is_left and name in built.origins]
    own = built.make_optimizer or built.optimizer or "optimizer" in built.origins
    if asked.optimizer == AS_WRITTEN and not own:
        said.append("the optimizer is AdamW (--optimizer)")
    return replace(result, assumptions=(*said, *result.assumptions))


def _noted(result: VariantResult, sizes: Sizes, notes: tuple[str, ...]) -> VariantResult:
    assumptions = tuple(dict.fromkeys((*notes, *result.assumptions)))
    return replace(result, assumptions=assumptions, batch=sizes.batch, seq=sizes.seq)


def _file(request: Request, variant: Variant, kind: str) -> Path | None:
    """Where the snapshot of this result goes; nowhere if none is wanted."""
    if request.snapshot is None:
        return None
    file = Path(request.folder, request.snapshot)
    parts = [file.stem]
    if len(request.variants) > 1:
        parts.append(re.sub(r"[^\w.-]+", "-", variant.name))
    if kind == "measured" and request.mode == "auto":
        parts.append(kind)
    if is_rank():
        parts.append(f"rank{os.environ['RANK']}")
    return file.with_name("-".join(parts) + file.suffix)


def _remember(request: Request, expected: VariantResult, came: VariantResult) -> None:
    """What was learnt, in the user's cache: the constants of this GPU, and how near the estimate was."""
    path = calibration.default_path()
    known = calibration.load(path)
    on = "cpu"
    if request.device == "cuda":
        place = device_here("cuda")
        on = torch.cuda.get_device_name(place)
        constants = constants_here(place)
        known = known if constants is None else calibration.with_constants(known, constants)
    if came.ranks:
        on += f", {len(came.ranks)} ranks"
    target = request.target
    if not target.startswith("hf:"):
        target = str(Path(request.folder, target).absolute())
    comparison = calibration.Comparison(
        target, came.name, on, torch.__version__, expected.allocated_bytes, came.allocated_bytes,
        expected.reserved_bytes, came.reserved_bytes,
    )  # fmt: skip
    calibration.save(path, calibration.with_comparison(known, comparison))
