"""What a file's model is built of: its maker, the inputs found for it, its loss, and everything that was assumed."""

from __future__ import annotations

import ast
import inspect
import weakref
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, cast

import torch
from torch import nn

from remat.probe.batch import hugging_face_inputs
from remat.probe.batch.forward_source import without_gradients
from remat.probe.batch.inputs import batch_of, find, has_sequence, sizes_said
from remat.probe.batch.losses import described, loss_of
from remat.probe.batch.shapes import dtype_of_floats
from remat.probe.batch.taken import methods
from remat.probe.built import Built, FactMissingError, Inputs
from remat.probe.libraries import is_hugging_face, unwrapped, without_adapters
from remat.probe.simulated.fakes import cast_module
from remat.probe.target.asides import left_out, set_aside
from remat.probe.target.asked_for import made_or_asked
from remat.probe.target.building import building, known_numbers
from remat.probe.target.defaults import enter
from remat.probe.target.packages import read
from remat.probe.target.scopes import evaluate
from remat.probe.target.stepping import Stepping
from remat.probe.target.training_loop import Loop, loop_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from remat.probe.batch.inputs import Found
    from remat.probe.messages import Location
    from remat.probe.target.calls import Callee
    from remat.probe.target.defaults import DefaultDtype
    from remat.probe.target.loading import File
    from remat.probe.target.spec import Spec

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


@dataclass(frozen=True, slots=True)
class Made:
    """How a file makes its model. `place`: where a line about it would be added. `said`: what was assumed once made."""

    make: Callable[[], object]
    file: File | None
    spec: Spec
    place: Location
    assumptions: tuple[str, ...] = ()
    said: Callable[[], tuple[str, ...]] = tuple
    dtype: DefaultDtype | None = None
    names: Callable[[], Mapping[int, str]] = dict
    """what the model is called, by the line of each function; known once it is made"""
    beside: Callable[[], int] = int
    """bytes of other models that are run with it"""


@dataclass(slots=True)
class _Known:
    """What making the model, and its last batch, told."""

    found: Found | None = None
    said: list[str] = field(default_factory=list)
    of_batch: tuple[str, ...] = ()
    loop: Loop = field(default_factory=Loop)
    stepping: Stepping | None = None
    model: Callable[[], nn.Module | None] = lambda: None
    """the last that was made, while somebody has it"""


def built_from(made: Made) -> Built:
    known = _Known(loop=loop_of(made.file) if made.file is not None else Loop())
    loop = known.loop
    if made.file is not None and loop.makings and made.spec.optimizer is None:
        usual = loop.optimizer.value if loop.optimizer else "adamw"
        known.stepping = Stepping(made.file, loop.makings, made.names, usual)
    in_trainer = made.file is not None and "Trainer(" in read(made.file.path)
    return Built(
        make_model=lambda: _model(made, known),
        make_batch=lambda model, batch, seq: _batch(made, known, model, batch, seq),
        make_loss=lambda output, inputs: _loss(made, known, output, inputs),
        make_optimizer=None if known.stepping is None else partial(_own_optimizer, known),
        optimizer=made.spec.optimizer or (loop.optimizer.value if loop.optimizer else None),
        autocast=made.spec.autocast or (loop.autocast.value if loop.autocast else None),
        origins=dict(_origins(made, loop)),
        holds_outputs=not in_trainer and not loop.habits.drops_output,
        grad_accum=int(loop.accumulates.value) if loop.accumulates is not None and loop.accumulates.is_sure else 1,
        habits=loop.habits,
        beside=made.beside,
        notes=lambda: tuple(
            dict.fromkeys(
                filter(None, (*_of_loop(made, known), *made.assumptions, *made.said(), *known.said, *known.of_batch))
            )
        ),
    )


def _own_optimizer(known: _Known, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    model = known.model()
    if model is None or known.stepping is None:
        return torch.optim.AdamW(parameters)
    return known.stepping.make(model, parameters)


def _of_loop(made: Made, known: _Known) -> tuple[str, ...]:
    said = [remark.value.format(_at(made, remark.line)) for remark in known.loop.remarks]
    return (*(() if known.stepping is None else known.stepping.said), *said)


def _model(made: Made, known: _Known) -> nn.Module:
    model = _once(made)
    known.model = weakref.ref(model)
    if known.stepping is not None:
        known.stepping.said.clear()
    if known.found is None and made.spec.inputs is None and not is_hugging_face(without_adapters(unwrapped(model))):
        if place := without_gradients(model):
            raise _only_for_inference(model, place)
        trial = unwrapped(_once(made))  # a trial may leave caches behind: it has a model of its own
        trial.train()
        known.found = find(trial, made.spec, made.place)
        if known.found.output is not None and made.spec.loss is None:
            inputs = batch_of(known.found, trial, None, None)
            known.said.append(described(known.found.output, inputs))
        known.found = replace(known.found, output=None)  # it belongs to this one fake world
    known.said += [text for text in set_aside() if text not in known.said]
    return model


def _only_for_inference(model: nn.Module, place: Location) -> FactMissingError:
    name = type(model).__name__
    fact = f"how `{name}` is trained: its forward runs without gradients, as {place.path}:{place.line} says"
    how = "take that decorator away, or write remat_probe.py with build(), which returns a module that can be trained"
    return FactMissingError(fact, how, place)


def _once(made: Made) -> nn.Module:
    enter(made.dtype)
    with building():
        try:
            model = made_or_asked(made.make, made.spec, made.place)
        except (TypeError, NameError, AttributeError) as error:
            if options := left_out():
                given = " ".join(f"{option} …" for option in options)
                raise FactMissingError(
                    f"options {', '.join(options)}, which the script requires ({type(error).__name__}: {error})",
                    f"add above line {made.place.line} of {made.place.path}, as the script is started: "
                    f'# remat: probe(args="{given}")',
                    made.place,
                ) from error
            raise
    if isinstance(model, tuple) and model and isinstance(model[0], nn.Module):
        model = model[0]
    if not isinstance(model, nn.Module):
        raise FactMissingError(
            f"expected a torch.nn.Module, but what was made is of type {type(model).__name__}",
            "name a class of modules, or a function that returns one",
            made.place,
        )
    if made.spec.call is not None:
        model.forward = _method(model, made.spec.call, made.place)
    if made.spec.dtype is not None:
        cast_module(model, DTYPES[made.spec.dtype], buffers=True)
    return model


def _method(model: nn.Module, name: str, place: Location) -> Callee[object]:
    method = getattr(model, name, None)
    if not callable(method):
        there = ", ".join(methods(model))
        raise FactMissingError(
            f"`call=` names `{name}`, which {type(model).__name__} does not have", f"it has {there}", place
        )
    return cast("Callee[object]", method)


def _origins(made: Made, loop: Loop) -> Iterator[tuple[str, str]]:
    """What the script's own lines say, where no comment does: by the field of `Built`, each as a sentence."""
    yield from _accumulation(made, loop)
    if loop.autocast is not None and made.spec.autocast is None:
        where = _at(made, loop.autocast.line)
        yield "autocast", f"forward runs under autocast to {loop.autocast.value}, as {where} says"
    elif loop.unsure_autocast is not None and made.spec.autocast is None:
        where = _at(made, loop.unsure_autocast.line)
        yield (
            "autocast",
            f"no autocast is counted: whether {where} runs forward under it, only a run tells (--autocast)",
        )
    if loop.makings:
        return
    if made.spec.optimizer is None and loop.optimizer is not None:
        if loop.optimizer.value == "none":
            by_hand = f"{_at(made, loop.optimizer.line)} changes the parameters by hand"
            yield "optimizer", f"no optimizer is counted: {by_hand} (--optimizer)"
            return
        yield "optimizer", f"the optimizer is {loop.optimizer.value}, as {_at(made, loop.optimizer.line)} says"
    elif made.spec.optimizer is None and loop.other is not None:
        where = _at(made, loop.other.line)
        yield "optimizer", f"the optimizer is AdamW instead of {loop.other.value}, which {where} makes"


def _accumulation(made: Made, loop: Loop) -> Iterator[tuple[str, str]]:
    if loop.accumulates is None:
        return
    where = _at(made, loop.accumulates.line)
    if loop.accumulates.is_sure:
        yield (
            "grad_accum",
            f"gradients of {loop.accumulates.value} batches are accumulated, as {where} says (--grad-accum)",
        )
    else:
        yield (
            "grad_accum",
            f"no gradients are accumulated: over how many batches {where} does, only a run tells (--grad-accum)",
        )


def _batch(made: Made, known: _Known, model: nn.Module, batch: int | None, seq: int | None) -> Inputs:
    batch, seq = batch or made.spec.batch, seq or made.spec.seq
    told: list[str] = []
    has_batch = made.spec.inputs is None or "batch" in _names(made.spec.inputs)
    if batch is None and known.loop.batch is not None and has_batch:
        batch = int(known.loop.batch.value)
        told.append(f"a batch of {batch}, as {_at(made, known.loop.batch.line)} says (--batch)")
    if seq is None and known.loop.seq is not None and _has_sequence(made, known, model):
        seq = int(known.loop.seq.value)
        told.append(f"sequences of {seq}, as {_at(made, known.loop.seq.line)} says (--seq)")
    inputs = _batch_of(made, known, model, batch, seq)
    known.of_batch += tuple(told)
    return inputs


def _has_sequence(made: Made, known: _Known, model: nn.Module) -> bool:
    if made.spec.inputs is not None:
        return "seq" in _names(made.spec.inputs)
    if known.found is None:
        return hugging_face_inputs.has_sequence(without_adapters(model))
    return has_sequence(known.found)


def _at(made: Made, line: int) -> str:
    return f"{made.file.path.name if made.file is not None else ''}:{line}"


def _batch_of(made: Made, known: _Known, model: nn.Module, batch: int | None, seq: int | None) -> Inputs:
    if made.spec.inputs is not None:
        inputs, known.of_batch = _spelled(made, made.spec.inputs, model, batch, seq)
    elif known.found is None:
        base = without_adapters(model)
        inputs = hugging_face_inputs.make_batch(base, batch, seq)
        known.of_batch = hugging_face_inputs.assumptions(base, batch, seq)
    else:
        inputs = batch_of(known.found, model, batch, seq)
        known.of_batch = (*known.found.assumptions, *sizes_said(known.found, batch, seq))
    return inputs


def _spelled(
    made: Made, expression: str, model: nn.Module, batch: int | None, seq: int | None
) -> tuple[Inputs, tuple[str, ...]]:
    """Evaluate the inputs as the user wrote them; say which sizes in them were not given."""
    several = any(isinstance(part, nn.modules.batchnorm._BatchNorm) for part in model.modules())
    sizes = {"batch": batch or (8 if several else 1), "seq": seq or 256}
    given = {"batch": batch, "seq": seq}
    said = (f"{name} in inputs= is {size} (--{name})" for name, size in sizes.items() if given[name] is None)
    named = _names(expression)
    with known_numbers():
        value = evaluate(cast("File", made.file), expression, {**sizes, "torch": torch})
    return as_inputs(value, dtype_of_floats(model)), tuple(s for s in said if s.split()[0] in named)


def _names(expression: str) -> set[str]:
    return {n.id for n in ast.walk(ast.parse(expression, mode="eval")) if isinstance(n, ast.Name)}


def as_inputs(value: object, dtype: torch.dtype = torch.float32) -> Inputs:
    """Read a batch as users write it: a mapping of keywords, a tuple of arguments, or a single one."""
    if isinstance(value, dict) or hasattr(value, "keys"):
        entries = cast("dict[str, object]", value)
        return Inputs((), {name: _tensor(entries[name], dtype) for name in entries})
    if isinstance(value, tuple | list) and not _is_shape(value):
        return Inputs(tuple(_tensor(item, dtype) for item in value), {})
    return Inputs((_tensor(value, dtype),), {})


def _is_shape(value: object) -> bool:
    return isinstance(value, tuple) and bool(value) and all(type(n) is int for n in value)


def _tensor(value: object, dtype: torch.dtype) -> object:
    return torch.randn(cast("tuple[int, ...]", value), dtype=dtype) if _is_shape(value) else value


def _loss(made: Made, known: _Known, output: object, inputs: Inputs) -> torch.Tensor:
    if made.spec.loss is None:
        if made.spec.inputs is not None and (text := described(output, inputs)) not in known.said:
            known.said.append(text)
        return loss_of(output, inputs)
    return call_loss(evaluate(cast("File", made.file), made.spec.loss), output, inputs)


def call_loss(loss: object, output: object, inputs: Inputs) -> torch.Tensor:
    """Call a user's loss with the output, and the batch where it takes two."""
    function = cast("Callee[torch.Tensor]", loss)
    try:
        taken = [p for p in inspect.signature(function).parameters.values() if p.default is p.empty]
    except (ValueError, TypeError):
        taken = []
    batch = inputs.kwargs or (inputs.args[0] if len(inputs.args) == 1 else inputs.args)
    return function(output, batch) if len(taken) >= 2 else function(output)
