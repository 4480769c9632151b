"""Finds out what a model's forward takes: reads its source, then tries likely inputs on fake tensors."""

from __future__ import annotations

import contextlib
import itertools
import re
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch._guards import detect_fake_mode

from remat.probe.batch.asked_inputs import ask_for
from remat.probe.batch.candidates import by_name, candidates, facts
from remat.probe.batch.data_sides import sides_of_data
from remat.probe.batch.forward_use import first_with_weights, uses
from remat.probe.batch.losses import own_loss
from remat.probe.batch.objects import OBJECTS, objects
from remat.probe.batch.shapes import BATCH, SEQ, PerSample, Recipe, Shape, Sizes, dtype_of_floats
from remat.probe.batch.taken import parameters
from remat.probe.batch.unfound import lacking, not_found
from remat.probe.batch.use import Use
from remat.probe.built import FactMissingError
from remat.probe.simulated.fakes import OneDevice
from remat.probe.simulated.few_values import Unknowable
from remat.probe.target.building import Answering

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager

    from torch import nn

    from remat.probe.batch.candidates import Facts
    from remat.probe.batch.shapes import Value
    from remat.probe.batch.taken import Taken
    from remat.probe.built import Inputs
    from remat.probe.messages import Location
    from remat.probe.target.spec import Spec

_MOST_TRIES, _FEW_TRIES = 80, 6
_PATIENCE = 25.0  # seconds of trying
_LONGEST = 1024  # tokens, where the model could take more and nothing is said
_LENGTHS = (
    "block_size", "max_seq_len", "max_seq_length", "seq_len", "context_length", "max_len", "n_positions", "n_ctx",
    "max_position_embeddings", "ctx_len", "max_length", "seq_length", "sequence_length",
)  # fmt: skip
_POSITIONS = re.compile(r"pos(ition)?(al)?s?_?(emb|enc|table|ids|$)|wpe")
_PICTURE = (480, 640)  # for models that resize what they are given
_SEVERAL = 3
_MAIN = ("x", "input", "inputs", "img", "image", "images", "data", "batch", "sample")
_TARGETS = ("targets", "target", "labels", "label", "y")
_HOPELESS = (ImportError, NotImplementedError, FactMissingError, MemoryError)


@dataclass(frozen=True, slots=True)
class Found:
    """How to make a batch. `batch`, `seq`: the sizes where none are given."""

    recipe: Recipe
    batch: int
    seq: int
    assumptions: tuple[str, ...] = ()
    output: object = None
    only_alone: FactMissingError | None = None
    """what to ask where more than one sample is given, if the inputs fit one alone"""


@dataclass(slots=True)
class _Search:
    model: nn.Module
    sizes: Sizes
    until: float
    tries: int = 0
    first: tuple[Recipe, BaseException] | None = None
    alone: Recipe | None = None

    def fits(self, recipe: Recipe, batch: int | None = None) -> tuple[bool, object]:
        """Tell whether forward takes it, and what it returned."""
        self.tries += 1
        try:
            with torch.no_grad(), _fakes(self.model), Answering():
                inputs = recipe.inputs(replace(self.sizes, batch=batch or self.sizes.batch))
                return True, self.model(*inputs.args, **inputs.kwargs)
        except Unknowable:
            return True, None  # it came as far as a question about values, which the estimate assumes an answer to
        except _HOPELESS:
            raise
        except Exception as error:  # noqa: BLE001  (any code of the user's)
            if self.first is None:
                self.first = (recipe, error)
            return False, None

    @property
    def over(self) -> bool:
        return self.tries >= _MOST_TRIES or time.monotonic() > self.until


def find(model: nn.Module, spec: Spec, place: Location) -> Found:
    """Find inputs that `model.forward` takes. Raises FactMissingError, which says what to add at `place`."""
    taken = parameters(model, place)
    found = uses(model)
    if taken.needed and taken.needed[0] not in found:
        found[taken.needed[0]] = Use(consumer=first_with_weights(model))
    names = [*taken.needed, *taken.expected]
    known = facts(model, spec.image, sides_of_data(place.path))
    choices = {name: _choices(name, found.get(name, Use()), model, known, taken) for name in names}
    sizes = _sizes(model, spec, choices)
    search = _Search(model, sizes, time.monotonic() + _PATIENCE)
    pair = {name: _choices(name, found[name], model, known, taken) for name in _of_two_kinds(taken, found)}
    firsts = itertools.islice(_likeliest_first(pair), _FEW_TRIES)
    fitting = _fitting(search, itertools.chain(firsts, _combinations(taken, choices, known)))
    if fitting is None:
        wanted = {name: found.get(name, Use()) for name in (*names, *lacking(search.first, model, taken))}
        raise not_found(model, search.first, search.tries, wanted, place)
    recipe, output = _with_targets(search, *fitting, taken)
    wanted = {name: found.get(name, Use()) for name in names}
    alone = ask_for(_of_one(model, search, wanted), wanted, place) if fitting[0] is search.alone else None
    return Found(recipe, sizes.batch, sizes.seq, _said(recipe, spec), output, alone)


def _of_two_kinds(taken: Taken, found: Mapping[str, Use]) -> list[str]:
    """Return what is trained together though each may be left out: a picture and its text, for layers of two kinds."""
    names = [n for n in (*taken.needed, *taken.expected, *taken.optional) if n in found] if taken.all_open else []
    seen = [name for name in names if found[name].consumer is not None]
    return seen if len({type(found[name].consumer) for name in seen}) > 1 else []


def _fitting(search: _Search, choices: Iterator[dict[str, Value]]) -> tuple[Recipe, object] | None:
    """Return what fits first: several inputs of one sample in a batch of more too, where none is stretched to fit."""
    only_alone: tuple[Recipe, object] | None = None
    for values in choices:
        recipe = Recipe(values)
        fits, output = search.fits(recipe)
        if fits and (len(values) == 1 or search.sizes.batch > 1 or search.fits(recipe, _SEVERAL)[0]):
            return recipe, output
        if fits:
            only_alone = only_alone or (recipe, output)
        if search.over:
            break
    search.alone = only_alone[0] if only_alone is not None else None
    return only_alone


def _combinations(taken: Taken, choices: Mapping[str, list[Value]], known: Facts) -> Iterator[dict[str, Value]]:
    """Yield what to try: what has no default, then also what a tensor is expected for, then all whose name tells."""
    needed = {name: choices[name] for name in taken.needed}
    named: dict[str, list[Value]] = {name: [*by_name(name, known)] for name in taken.optional}
    also = {name: shapes for name, shapes in named.items() if shapes}
    yield from itertools.islice(_likeliest_first(needed), _MOST_TRIES // 2 if taken.expected or also else None)
    if taken.expected:
        yield from itertools.islice(_likeliest_first(choices), _MOST_TRIES // 4)
    for count in range(1, len(also)):  # a step in time may be needed, and a class not be taken
        firsts = dict(itertools.islice(also.items(), count))
        yield from itertools.islice(_likeliest_first({**needed, **firsts}), _FEW_TRIES)
    if also:
        yield from _likeliest_first({**needed, **also})


def _choices(name: str, use: Use, model: nn.Module, known: Facts, taken: Taken) -> list[Value]:
    if name in taken.plain:
        return [taken.plain[name]]
    if name in taken.lists:
        height, width = known.image or _PICTURE
        if taken.lists[name] == "tensors":
            return [PerSample(Shape((known.channels or 3, height, width)))]
        return [PerSample(found) for found in objects(model, height, width)]
    if use.keys and use.consumer is None:
        firsts = {key: [c for c in candidates(key, Use(), known) if isinstance(c, Shape)] for key in use.keys}
        return [{key: next(iter(shapes), Shape(("batch", SEQ))) for key, shapes in firsts.items()}]
    if use.consumer is None and (taken.needed == [name] or name in _MAIN):
        use = replace(use, consumer=first_with_weights(model))
    return [*candidates(name, use, known)]


def _sizes(model: nn.Module, spec: Spec, choices: Mapping[str, list[Value]]) -> Sizes:
    firsts = [values[0] for values in choices.values() if values]
    tokens = any(isinstance(v, Shape) and v.kind == "int" and SEQ in v.dims for v in firsts)
    return Sizes(spec.batch or (1 if tokens else 8), spec.seq or _longest(model), dtype_of_floats(model))


def _longest(model: nn.Module) -> int:
    """Return the number of positions a model is made for, up to a limit."""
    for holder in (model, *(getattr(model, name, None) for name in ("config", "cfg", "args", "params", "hparams"))):
        for name in _LENGTHS:
            value = holder.get(name) if isinstance(holder, dict) else getattr(holder, name, None)
            if isinstance(value, int) and value > 1:
                return min(value, _LONGEST)
    tables = [m for n, m in model.named_modules() if isinstance(m, torch.nn.Embedding) and "pos" in n.lower()]
    held = [t.shape for n, t in [*model.named_buffers(), *model.named_parameters()] if _POSITIONS.search(n.lower())]
    rows = [max(shape[:-1]) for shape in held if len(shape) in {2, 3}]  # (positions, width), with a batch of one or not
    return min([256, *(table.num_embeddings for table in tables), *(n for n in rows if n > 1)])


def _likeliest_first(choices: Mapping[str, list[Value]]) -> Iterator[dict[str, Value]]:
    """Yield combinations of one choice for each name, those near the front of every list first."""
    lists = [list(enumerate(values)) for values in choices.values()]
    if not lists or not all(lists):
        return
    few = [values[:24] for values in lists] if len(lists) < 4 else [values[:4] for values in lists]
    for combination in sorted(itertools.product(*few), key=_unlikelihood):
        yield dict(zip(choices, (value for _, value in combination), strict=True))


def _unlikelihood(combination: tuple[tuple[int, Value], ...]) -> int:
    """Count how far down the lists a combination is; inputs of one shape, or all sequences, are likelier."""
    if len(combination) < 2:
        return combination[0][0]
    alike = len({str(value) for _, value in combination}) == 1
    together = all(isinstance(v, Shape) and v.dims[:2] == (BATCH, SEQ) for _, v in combination)
    masks = [(rank, v.dims) for rank, v in combination if isinstance(v, Shape) and v.kind == "bool"]
    again = sum(rank for rank, _ in masks[1:]) if len({dims for _, dims in masks}) == 1 else 0
    return sum(rank for rank, _ in combination) - again - (3 if alike or together else 0)


def _with_targets(search: _Search, recipe: Recipe, output: object, taken: Taken) -> tuple[Recipe, object]:
    """Add the targets a model takes to work out its loss itself."""
    open_ = [n for n in (*taken.optional, *taken.expected) if n not in recipe.values]
    name = next((name for name in _TARGETS if name in open_), None)
    first = next(iter(recipe.values.values()))
    if name is None or not isinstance(first, Shape):
        return recipe, output
    shapes = [first] if first.kind == "int" else [Shape(("batch",), "int", 2), first]
    for shape in shapes:
        longer = Recipe({**recipe.values, name: shape})
        fits, result = search.fits(longer)
        if fits and (result is None or _is_loss(result)):
            return longer, result
    return recipe, output


def _is_loss(output: object) -> bool:
    leaves = torch.utils._pytree.tree_leaves(output)
    return own_loss(output) is not None or any(isinstance(t, torch.Tensor) and t.dim() == 0 for t in leaves)


def _said(recipe: Recipe, spec: Spec) -> tuple[str, ...]:
    said = [f"inputs: {recipe}"]
    fixed = [v for v in recipe.values.values() if isinstance(v, Shape) and len(v.dims) == 4]
    lists = [v for v in recipe.values.values() if isinstance(v, PerSample)]
    if lists and spec.image is None:
        said.append(f"images of {_PICTURE[0]}x{_PICTURE[1]} (image= in a probe comment)")
    if any(not isinstance(v.each, Shape) for v in lists):
        said.append(f"{OBJECTS} objects in each image")
    if fixed and spec.image is None:
        height, width = _sides(fixed[0])
        if (height, width) != (1, 1):  # noise that pictures are made of
            said.append(f"images of {height}x{width} (image= in a probe comment)")
    return tuple(said)


def _sides(picture: Shape) -> tuple[int | str, int | str]:
    """Height and width, whether channels come before or after them."""
    _, first, second, last = picture.dims
    return (first, second) if last in {1, 3, 4} and second != 1 else (second, last)


def sizes_said(found: Found, batch: int | None, seq: int | None) -> tuple[str, ...]:
    """Say which sizes were taken because none were given."""
    said = [f"a batch of {found.batch} (--batch)"] if batch is None else []
    return (*said, f"sequences of {found.seq} (--seq)") if seq is None and has_sequence(found) else tuple(said)


def has_sequence(found: Found) -> bool:
    return any(isinstance(v, Shape) and SEQ in v.dims for v in found.recipe.values.values())


def batch_of(found: Found, model: nn.Module, batch: int | None, seq: int | None) -> Inputs:
    if found.only_alone is not None and (batch or found.batch) > 1 and _has_batch(found.recipe):
        raise found.only_alone
    return found.recipe.inputs(Sizes(batch or found.batch, seq or found.seq, dtype_of_floats(model)))


def _has_batch(recipe: Recipe) -> bool:
    return any(isinstance(v, Shape) and BATCH in v.dims for v in recipe.values.values())


def _of_one(model: nn.Module, search: _Search, wanted: Mapping[str, Use]) -> str:
    what = f"what `{', '.join(wanted)}` of `{type(model).__name__}.forward` looks like for more than one sample"
    return f"{what}: {search.alone} fits one alone (--batch 1)"


def _fakes(model: nn.Module) -> AbstractContextManager[object]:
    if detect_fake_mode(list(model.parameters())[:1]) is not None:
        return contextlib.nullcontext()
    return OneDevice(allow_non_fake_inputs=True)
